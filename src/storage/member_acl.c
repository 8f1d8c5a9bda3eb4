/* member_acl.c - see member_acl.h. The form is that of Linux's posix_acl_xattr.h: a version, then
 * entries of tag, rights and id, all little-endian. */
#include "member_acl.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "member_make.h"

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
#define HEAD 4U
#define ENTRY 8U
#define VERSION 2U
#define TAG_USER 0x02U
#define TAG_GROUP 0x08U
#define ENTRIES_MAX 1024U

/* A directory of this worker has a default: what is made in it has inherited it. */
static bool is_inherited;

bool member_acl_is(const char *attribute)
{
	return strcmp(attribute, ACCESS) == 0 || strcmp(attribute, DEFAULT) == 0;
}

static uint32_t get(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = n; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static void put32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++, v >>= 8)
		p[i] = (uint8_t)v;
}

static int set(int fd, const char *attribute, const void *value, size_t len, struct err *e)
{
	is_inherited = is_inherited || strcmp(attribute, DEFAULT) == 0;
	if (fsetxattr(fd, attribute, value, len, 0) == 0)
		return 0;
	if (errno == EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED,
			       "an ACL: the file system of the storage folder keeps none");
	if (errno == EINVAL)
		return err_set(e, ERR_INVALID, "an ACL that the kernel refuses");
	return member_fail(e, "set", attribute);
}

int member_acl_set(int fd, const char *attribute, const uint8_t *value, size_t len,
		   const struct storage_ids *ids, struct err *e)
{
	uint8_t text[HEAD + ENTRIES_MAX * ENTRY];

	if (ids->single)
		return 0;
	if (len < HEAD || len > sizeof(text) || (len - HEAD) % ENTRY != 0 ||
	    get(value, 4) != VERSION)
		return err_set(e, ERR_INVALID, "a malformed ACL");
	memcpy(text, value, len);
	for (uint8_t *p = text + HEAD; p < text + len; p += ENTRY) {
		uint32_t tag = get(p, 2);

		if (tag == TAG_USER || tag == TAG_GROUP)
			put32(p + 4, member_map_id(get(p + 4, 4), ids));
	}
	return set(fd, attribute, text, len, e);
}

void member_acl_unmap(uint8_t *value, size_t len, const struct storage_ids *ids)
{
	for (size_t at = HEAD; at + ENTRY <= len && ids->shift > 0; at += ENTRY) {
		uint32_t tag = get(value + at, 2), id = get(value + at + 4, 4);

		if ((tag == TAG_USER || tag == TAG_GROUP) && id >= ids->shift)
			put32(value + at + 4, id - ids->shift);
	}
}

int member_acl_copy(int fd, const char *attribute, const void *value, size_t len, struct err *e)
{
	return set(fd, attribute, value, len, e);
}

static int drop(int fd, const char *attribute, struct err *e)
{
	if (fremovexattr(fd, attribute) == 0 || errno == ENODATA || errno == EOPNOTSUPP)
		return 0;
	return member_fail(e, "remove", attribute);
}

int member_acl_clear(int fd, struct err *e)
{
	if (!is_inherited)
		return 0;
	return drop(fd, ACCESS, e) < 0 ? -1 : drop(fd, DEFAULT, e);
}
