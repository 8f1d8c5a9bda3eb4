/* erofs_attrs.c - see erofs_attrs.h. */
#include "erofs_attrs.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "erofs_disk.h"
#include "member_acl.h"
#include "member_make.h"

#define LIST_MAX 65536U
#define VALUE_MAX 65535U
#define NAMES_MAX 512U
#define ALL_MAX (sizeof(struct erofs_attr_head) + (size_t)65534 * 4)

static const struct {
	const char *name; /* ends with a dot: all that begin with it */
	enum erofs_prefix prefix;
} prefixes[] = {
	{ "user.", EROFS_PREFIX_USER },
	{ "security.", EROFS_PREFIX_SECURITY },
	{ "system.posix_acl_access", EROFS_PREFIX_ACL_ACCESS },
	{ "system.posix_acl_default", EROFS_PREFIX_ACL_DEFAULT },
};

/* The attributes of one file, while they are collected. */
struct attrs {
	uint8_t bytes[ALL_MAX];
	size_t len;
};

static int add(struct attrs *a, const char *name, const void *value, size_t len, struct err *e)
{
	size_t i = 0, skip, used;

	while (strncmp(name, prefixes[i].name, strlen(prefixes[i].name)) != 0)
		if (++i == COUNT(prefixes))
			return 0;
	skip = strlen(prefixes[i].name);
	used = sizeof(struct erofs_attr) + strlen(name + skip) + len;
	used = (used + 3) / 4 * 4;
	if (a->len + used > sizeof(a->bytes))
		return err_set(e, ERR_LIMIT, "over 256 KiB of attributes");
	const struct erofs_attr head = { .name_len = (uint8_t)strlen(name + skip),
					 .prefix = (uint8_t)prefixes[i].prefix,
					 .value_len = htole16((uint16_t)len) };
	memcpy(a->bytes + a->len, &head, sizeof(head));
	memcpy(a->bytes + a->len + sizeof(head), name + skip, head.name_len);
	memcpy(a->bytes + a->len + sizeof(head) + head.name_len, value, len);
	a->len += used;
	return 0;
}

static int add_one(int fd, const char *name, const struct storage_ids *ids, struct attrs *a,
		   struct err *e)
{
	static uint8_t value[VALUE_MAX];
	ssize_t n;

	if (!member_may_set(name) || (member_acl_is(name) && ids->single))
		return 0;
	n = fgetxattr(fd, name, value, sizeof(value));
	if (n < 0)
		return errno == ENODATA ? 0 : member_fail(e, "read", name);
	if (member_acl_is(name))
		member_acl_unmap(value, (size_t)n, ids);
	return add(a, name, value, (size_t)n, e);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names, sorted: file systems list them in any order. */
static int list(int fd, char text[LIST_MAX], const char *ret[NAMES_MAX], size_t *ret_n,
		struct err *e)
{
	ssize_t len = flistxattr(fd, text, LIST_MAX);

	*ret_n = 0;
	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : err_sys(e, "list attributes");
	for (const char *at = text; at < text + len; at += strlen(at) + 1) {
		if (*ret_n == NAMES_MAX)
			return err_set(e, ERR_LIMIT, "over %u attributes", NAMES_MAX);
		ret[(*ret_n)++] = at;
	}
	qsort(ret, *ret_n, sizeof(ret[0]), by_text);
	return 0;
}

int erofs_attrs_read(int fd, const struct storage_ids *ids, struct erofs_node *ret, struct err *e)
{
	static struct attrs a; /* large, as the next two */
	static char text[LIST_MAX];
	static const char *names[NAMES_MAX];
	size_t n;

	if (list(fd, text, names, &n, e) < 0)
		return -1;
	if (n == 0)
		return 0;
	memset(a.bytes, 0, a.len);
	a.len = sizeof(struct erofs_attr_head);
	for (size_t i = 0; i < n; i++)
		if (add_one(fd, names[i], ids, &a, e) < 0)
			return -1;
	if (a.len == sizeof(struct erofs_attr_head))
		return 0;
	ret->attrs = malloc(a.len);
	if (ret->attrs == NULL)
		return err_set(e, ERR_LIMIT, "attributes take too much memory");
	memcpy(ret->attrs, a.bytes, a.len);
	ret->attrs_len = (uint32_t)a.len;
	return 0;
}
