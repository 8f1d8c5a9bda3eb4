#include "storage/member_make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "storage/storage_room.h"

#define BUFFER (256U << 10)
#define BLOCK 4096U
#define INLINE_ATTRIBUTES 128U /* bytes that most file systems keep beside the file */
#define ID_MAX 65535U
#define TIME_MIN (-((int64_t)1 << 31)) /* 1901: what ext4 keeps */
#define TIME_MAX ((int64_t)1 << 33)    /* beyond the year 2200: absurd */
#define CAPABILITY "security.capability"
#define XATTR_VALUE_MAX 65536U
#define ATTRIBUTES_MAX 65536U

/* errno must still be that of the failed call. */
int member_fail(struct err *e, const char *what, const char *name)
{
	if (errno == ENOSPC || errno == EDQUOT)
		return err_set_reason(e, REASON_STORAGE_FULL, "%s: no room on the disk", what);
	return err_sys(e, "%s %.150s", what, name);
}

/* user.overlay.* has a meaning to overlayfs: an archive could make up redirects and whiteouts. */
bool member_may_set(const char *attribute)
{
	if (strcmp(attribute, CAPABILITY) == 0 || member_acl_is(attribute))
		return true;
	return strncmp(attribute, "user.", 5) == 0 && attribute[5] != '\0' &&
	       strncmp(attribute, "user.overlay.", 13) != 0;
}

uint64_t member_bytes(const struct tar_member *m)
{
	uint64_t attributes = 0, blocks = 0, end = 0; /* end: of the counted part, in blocks */

	for (size_t i = 0; i < m->nxattrs; i++)
		attributes += m->xattrs[i].len;
	if (attributes <= INLINE_ATTRIBUTES)
		attributes = 0;
	if (!m->is_sparse)
		return attributes + m->head.size;
	for (size_t i = 0; i < m->npieces; i++) {
		uint64_t first = m->pieces[i].offset / BLOCK;
		uint64_t last = (m->pieces[i].offset + m->pieces[i].len + BLOCK - 1) / BLOCK;

		if (m->pieces[i].len == 0)
			continue;
		blocks += last - (first < end ? end : first);
		end = last;
	}
	return attributes + blocks * BLOCK;
}

/* ---- access control lists
 *
 * An ACL is kept, or refused with the reason. It is never left out: without it others may get
 * rights, or owners lose theirs. Where there is one id for everything an ACL means nothing, and is
 * left out as the owners are. The ids in ACLs are stored as owners are (storage_jail.h). The form
 * is that of linux/posix_acl_xattr.h: a version, then entries of tag, rights and id, all
 * little-endian. */

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
#define HEAD 4U
#define ENTRY 8U
#define VERSION 2U
#define TAG_USER 0x02U
#define TAG_GROUP 0x08U
#define ENTRIES_MAX 1024U

/* A directory of this worker has a default: new entries have inherited it. */
static bool is_inherited;

bool member_acl_is(const char *attribute)
{
	return strcmp(attribute, ACCESS) == 0 || strcmp(attribute, DEFAULT) == 0;
}

/* n bytes, at most four, least significant first. */
static uint32_t member_acl_get(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = n; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static void member_acl_put32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++, v >>= 8)
		p[i] = (uint8_t)v;
}

/* The id on disk. Ids that no cell has become "nobody". */
static uint32_t member_map_id(uint64_t id, const struct storage_ids *ids)
{
	return (uint32_t)(id > ID_MAX ? MEMBER_NOBODY : id) + ids->shift;
}

/* A default list on any directory is remembered, since later entries inherit it. */
static int member_acl_put(int fd, const char *attribute, const void *value, size_t len,
			  struct err *e)
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

/* Set the attributes of an archive. */
static int member_acl_set(int fd, const char *attribute, const uint8_t *value, size_t len,
			  const struct storage_ids *ids, struct err *e)
{
	uint8_t text[HEAD + ENTRIES_MAX * ENTRY];

	if (ids->single)
		return 0;
	if (len < HEAD || len > sizeof(text) || (len - HEAD) % ENTRY != 0 ||
	    member_acl_get(value, 4) != VERSION)
		return err_set(e, ERR_INVALID, "a malformed ACL");
	memcpy(text, value, len);
	for (uint8_t *p = text + HEAD; p < text + len; p += ENTRY) {
		uint32_t tag = member_acl_get(p, 2);

		if (tag == TAG_USER || tag == TAG_GROUP)
			member_acl_put32(p + 4, member_map_id(member_acl_get(p + 4, 4), ids));
	}
	return member_acl_put(fd, attribute, text, len, e);
}

void member_acl_unmap(uint8_t *value, size_t len, const struct storage_ids *ids)
{
	for (size_t at = HEAD; at + ENTRY <= len && ids->shift > 0; at += ENTRY) {
		uint32_t tag = member_acl_get(value + at, 2),
			 id = member_acl_get(value + at + 4, 4);

		if ((tag == TAG_USER || tag == TAG_GROUP) && id >= ids->shift)
			member_acl_put32(value + at + 4, id - ids->shift);
	}
}

/* Set what another file on the same disk has. */
static int member_acl_copy(int fd, const char *attribute, const void *value, size_t len,
			   struct err *e)
{
	return member_acl_put(fd, attribute, value, len, e);
}

/* A list that does not exist is no error. */
static int member_acl_drop(int fd, const char *attribute, struct err *e)
{
	if (fremovexattr(fd, attribute) == 0 || errno == ENODATA || errno == EOPNOTSUPP)
		return 0;
	return member_fail(e, "remove", attribute);
}

/* The file is new: it must not have the attributes that its directory gives to all new entries. */
static int member_acl_clear(int fd, struct err *e)
{
	if (!is_inherited)
		return 0;
	return member_acl_drop(fd, ACCESS, e) < 0 ? -1 : member_acl_drop(fd, DEFAULT, e);
}

/* ---- owner, attributes, time */

/* With a single id the owner stays that of this process. */
static int member_set_owner(int dir, const char *name, int flags, const struct tar_head *h,
			    const struct storage_ids *ids, struct err *e)
{
	if (ids->single)
		return 0;
	return fchownat(dir, name, member_map_id(h->uid, ids), member_map_id(h->gid, ids), flags) <
			       0
		       ? member_fail(e, "set the owner of", h->path)
		       : 0;
}

struct timespec member_time(const struct tar_member *m)
{
	int64_t at = m->head.mtime < TIME_MIN	? TIME_MIN
		     : m->head.mtime > TIME_MAX ? TIME_MAX
						: m->head.mtime;

	return (struct timespec){ at, m->mtime_ns };
}

/* The time of the last access is left as it is. */
static void member_get_times(const struct tar_member *m, struct timespec ret[2])
{
	ret[0] = (struct timespec){ 0, UTIME_OMIT };
	ret[1] = member_time(m);
}

/* Attributes that the file system cannot keep are left out. */
static int member_set_attribute(int fd, const char *name, const void *value, size_t len,
				struct err *e)
{
	if (fsetxattr(fd, name, value, len, 0) == 0 || errno == EOPNOTSUPP || errno == EPERM ||
	    errno == EINVAL)
		return 0;
	/* Most file systems keep a few kilobytes for each file. */
	if (errno == ENOSPC || errno == E2BIG || errno == ERANGE)
		return err_set(e, ERR_LIMIT,
			       "attribute %.60s: its %zu bytes do not fit into the file system of "
			       "the storage folder",
			       name, len);
	return member_fail(e, "set attribute", name);
}

/* Attributes that an archive may not set are passed over in silence. */
static int member_set_attributes(int fd, const struct tar_member *m, const struct storage_ids *ids,
				 struct err *e)
{
	for (size_t i = 0; i < m->nxattrs; i++) {
		const struct tar_xattr *x = &m->xattrs[i];

		if (!member_may_set(x->name))
			continue;
		if (member_acl_is(x->name)
			    ? member_acl_set(fd, x->name, x->value, x->len, ids, e) < 0
			    : member_set_attribute(fd, x->name, x->value, x->len, e) < 0)
			return -1;
	}
	return 0;
}

/* In this order: a new owner clears set-id bits and capabilities. */
static int member_set_all(int fd, const struct tar_member *m, const struct storage_ids *ids,
			  struct err *e)
{
	struct timespec times[2];

	member_get_times(m, times);
	if (member_set_owner(fd, "", AT_EMPTY_PATH, &m->head, ids, e) < 0)
		return -1;
	if (member_acl_clear(fd, e) < 0)
		return -1;
	if (fchmod(fd, m->head.mode & 07777) < 0)
		return member_fail(e, "set the mode of", m->head.path);
	if (member_set_attributes(fd, m, ids, e) < 0)
		return err_wrap(e, "%.120s", m->head.path);
	return futimens(fd, times) < 0 ? member_fail(e, "set the time of", m->head.path) : 0;
}

int member_set_dir(int fd, const struct tar_member *m, const struct storage_ids *ids, struct err *e)
{
	return member_set_all(fd, m, ids, e);
}

/* ---- content */

/* Write len bytes of the body at the place where the file is. */
static int member_write_body(int fd, struct tar_reader *r, uint64_t len, const char *path,
			     struct err *e)
{
	static uint8_t bytes[BUFFER];

	while (len > 0) {
		ssize_t n = len < BUFFER ? 0 : tar_reader_splice(r, fd, len, e);

		if (n < 0 && e->sys != 0) {
			errno = e->sys;
			return member_fail(e, "write", path);
		}
		if (n == 0) {
			n = tar_reader_body(r, bytes, len < BUFFER ? (size_t)len : BUFFER, e);
			if (n == 0)
				return err_set(e, ERR_INVALID, "tar: a body is too short");
			if (n > 0 && io_write_all(fd, bytes, (size_t)n, e) < 0) {
				errno = e->sys;
				return member_fail(e, "write", path);
			}
		}
		if (n < 0 || storage_room_take(fd, (uint64_t)n, e) < 0)
			return -1;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Bytes between the pieces stay holes. The size is set last, since a hole may be at the end. */
static int member_write_pieces(int fd, const struct tar_member *m, struct tar_reader *r,
			       struct err *e)
{
	for (size_t i = 0; i < m->npieces; i++) {
		if (lseek(fd, (off_t)m->pieces[i].offset, SEEK_SET) < 0)
			return member_fail(e, "write", m->head.path);
		if (member_write_body(fd, r, m->pieces[i].len, m->head.path, e) < 0)
			return -1;
	}
	return ftruncate(fd, (off_t)m->real_size) < 0 ? member_fail(e, "write", m->head.path) : 0;
}

/* Mode 0600 until the owner is set, so no other user reads a half written file. */
int member_make_file(int dir, const char *name, const struct tar_member *m, struct tar_reader *r,
		     const struct storage_ids *ids, struct err *e)
{
	OWN_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return member_fail(e, "make", m->head.path);
	if (m->is_sparse ? member_write_pieces(fd, m, r, e) < 0
			 : member_write_body(fd, r, m->head.size, m->head.path, e) < 0)
		return -1;
	return member_set_all(fd, m, ids, e);
}

/* A link has neither a mode nor attributes of its own here. */
static int member_set_link(int dir, const char *name, const struct tar_member *m,
			   const struct storage_ids *ids, struct err *e)
{
	struct timespec times[2];

	member_get_times(m, times);
	if (member_set_owner(dir, name, AT_SYMLINK_NOFOLLOW, &m->head, ids, e) < 0)
		return -1;
	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return member_fail(e, "set the time of", m->head.path);
	return 0;
}

/* The target is kept as it is. Cells resolve it in their own root directory. */
int member_make_symlink(int dir, const char *name, const struct tar_member *m,
			const struct storage_ids *ids, struct err *e)
{
	if (m->head.link[0] == '\0')
		return err_set(e, ERR_INVALID, "tar: a link without a target: %.150s",
			       m->head.path);
	if (symlinkat(m->head.link, dir, name) < 0)
		return member_fail(e, "make link", m->head.path);
	return member_set_link(dir, name, m, ids, e);
}

int member_make_fifo(int dir, const char *name, const struct tar_member *m,
		     const struct storage_ids *ids, struct err *e)
{
	if (mknodat(dir, name, S_IFIFO | 0600, 0) < 0)
		return member_fail(e, "make FIFO", m->head.path);
	/* For both ends, so that it does not wait for another process. */
	OWN_FD fd = openat(dir, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? member_fail(e, "open", m->head.path) : member_set_all(fd, m, ids, e);
}

/* ---- a copy */

/* Holes are filled with zeros. */
static int member_copy_content(int from, int to, struct err *e)
{
	static uint8_t bytes[BUFFER];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (io_write_all(to, bytes, (size_t)n, e) < 0)
			return -1;
	return n < 0 ? err_sys(e, "read") : 0;
}

/* Attributes that cannot be read are left out. ACLs are copied with their stored ids. */
static int member_copy_attributes(int from, int to, struct err *e)
{
	static char names[ATTRIBUTES_MAX], value[XATTR_VALUE_MAX];
	ssize_t all = flistxattr(from, names, sizeof(names));

	for (ssize_t at = 0; at < all; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t n;

		if (!member_may_set(names + at))
			continue;
		n = fgetxattr(from, names + at, value, sizeof(value));
		if (n >= 0 &&
		    (member_acl_is(names + at)
			     ? member_acl_copy(to, names + at, value, (size_t)n, e)
			     : member_set_attribute(to, names + at, value, (size_t)n, e)) < 0)
			return -1;
	}
	return 0;
}

/* The order is that of member_set_all(), for the same reason. */
int member_copy(int from, const struct stat *st, int dir, const char *name, struct err *e)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, st->st_mtim };
	OWN_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return member_fail(e, "copy", name);
	if (member_copy_content(from, fd, e) < 0)
		return err_wrap(e, "copy %.100s", name);
	if (member_acl_clear(fd, e) < 0)
		return -1;
	if (fchown(fd, st->st_uid, st->st_gid) < 0 || fchmod(fd, st->st_mode & 07777) < 0)
		return member_fail(e, "copy", name);
	if (member_copy_attributes(from, fd, e) < 0)
		return -1;
	return futimens(fd, times) < 0 ? member_fail(e, "copy", name) : 0;
}

int member_copy_dir(int from, int to, struct err *e)
{
	struct stat st;

	if (fstat(from, &st) < 0)
		return member_fail(e, "copy", "a directory");
	const struct timespec times[2] = { { 0, UTIME_OMIT }, st.st_mtim };
	if (member_acl_clear(to, e) < 0)
		return -1;
	if (fchown(to, st.st_uid, st.st_gid) < 0 || fchmod(to, st.st_mode & 07777) < 0)
		return member_fail(e, "copy", "a directory");
	if (member_copy_attributes(from, to, e) < 0)
		return -1;
	return futimens(to, times) < 0 ? member_fail(e, "copy", "a directory") : 0;
}

/* ---- the directory of a member */

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

void member_dir_init(struct member_dir *d, int top)
{
	d->top = top;
	d->fd = -1;
	d->path[0] = '\0';
}

/* The length of the directory's part of a path, and its last part. */
static int member_split(const char *path, size_t *ret_len, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');

	*ret_len = slash == NULL ? 0 : (size_t)(slash - path);
	*ret_name = slash == NULL ? path : slash + 1;
	if (**ret_name == '\0' || strlen(*ret_name) > NAME_MAX)
		return err_set(e, ERR_INVALID, "a name that is empty or of over 255 bytes");
	return 0;
}

/* The first n bytes of path name the directory. */
static int member_open_part(int top, const char *path, size_t n, int *ret_fd, struct err *e)
{
	char dirs[TAR_HEAD_PATH_MAX];

	memcpy(dirs, path, n);
	dirs[n] = '\0';
	*ret_fd = kernel_openat2(top, n == 0 ? "." : dirs, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				 BENEATH);
	return *ret_fd < 0 ? member_fail(e, "open", dirs) : 0;
}

int member_dir_open(const struct member_dir *d, const char *path, const char **ret_name,
		    int *ret_fd, struct err *e)
{
	size_t n;

	return member_split(path, &n, ret_name, e) < 0
		       ? -1
		       : member_open_part(d->top, path, n, ret_fd, e);
}

int member_dir_leave(struct member_dir *d, struct err *e)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, d->time };
	int done = d->fd < 0 ? 0 : futimens(d->fd, times);

	if (done < 0)
		return member_fail(e, "set the time of", d->path);
	if (d->fd >= 0)
		fd_close(d->fd);
	d->fd = -1;
	return 0;
}

int member_dir_enter(struct member_dir *d, const char *path, const char **ret_name, struct err *e)
{
	struct stat st;
	size_t n;

	if (member_split(path, &n, ret_name, e) < 0)
		return -1;
	if (d->fd >= 0 && strncmp(d->path, path, n) == 0 && d->path[n] == '\0')
		return 0;
	if (member_dir_leave(d, e) < 0 || member_open_part(d->top, path, n, &d->fd, e) < 0)
		return -1;
	memcpy(d->path, path, n);
	d->path[n] = '\0';
	if (fstat(d->fd, &st) < 0)
		return member_fail(e, "open", d->path);
	d->time = st.st_mtim;
	return 0;
}
