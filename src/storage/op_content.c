/* op_content.c - operations on the content of a volume. A runner opens the volume. Its worker,
 * which can reach nothing else, does the rest. Files in a volume belong to a tenant, and cells
 * change them at the same time.
 *
 * On disk a volume is a directory with two others. Cells mount `data`. Files are written in `new`
 * before they get their name, and trees are moved there to be removed. No cell sees `new`. The next
 * operation that uses it removes the files that a killed worker left there.
 *
 * Invariants. Every path is resolved below `data` (RESOLVE_IN_ROOT). The result is used by its
 * descriptor, or by a name without following it. Only regular files are opened for reading, so no
 * pipe or device can block. No mode or owner is changed through a path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"
#include "lib/wire/content_msg.h"
#include "lib/wire/storage_msg.h"
#include "storage/chunk_in.h"
#include "storage/storage_jail.h"
#include "storage/storage_ops.h"
#include "storage/storage_room.h"
#include "storage/tree_remove.h"

struct content {
	const struct storage_content *r;
	int volume;  /* O_PATH: the directory of the volume. Owned by the caller, as the next two */
	int data;    /* O_PATH: its directory data */
	int out, in; /* in: -1 if it is no write */
	int room;    /* O_PATH: the image of the volume. -1: it has none */
	/* How ids of cells are stored: as storage_jail_ids(). In an image as they are. */
	bool single;
	uint32_t shift;
};

/* The directory that a path lies in, and its name there. */
struct content_place {
	int dir; /* owned: content_place_release() */
	char name[NAME_MAX + 1];
};
#define CONTENT_PLACE __attribute__((cleanup(content_place_release))) struct content_place
#define CONTENT_PLACE_NONE \
	{                  \
		.dir = -1  \
	}

/* ---- places: paths of a volume become descriptors
 *
 * Paths are clean: they begin with '/', and have no empty, "." or ".." component
 * (storage_msg_check()). */

#define RESOLVE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define TRIES 32 /* the kernel says EAGAIN when something is renamed at the same time */

#define ID_DEFAULT 1000

/* "user" of every template */

/* The number of the failed call is kept in e->sys: cordond makes it a status of HTTP. */
static int content_fail(struct err *e, const char *path)
{
	int sys = errno;

	(void)err_sys(e, "%.100s", path);
	e->sys = sys;
	return -1;
}

/* Open the entry at a path of the volume. A link at its end is followed unless flags say otherwise.
 * All links lead to places in the volume. -1 with errno. */
static int content_open(const struct content *c, const char *path, uint64_t flags)
{
	int fd = -1;

	for (int i = 0; i < TRIES; i++) {
		fd = kernel_openat2(c->data, path, flags | O_CLOEXEC, RESOLVE);
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd;
}

static void content_place_release(struct content_place *p)
{
	if (p->dir >= 0)
		fd_close(p->dir);
	p->dir = -1;
}

/* Set the owner. STORAGE_CONTENT_UNSET: as it is. */
static int content_chown(const struct content *c, int fd, uint32_t uid, uint32_t gid)
{
	if (c->single)
		return 0;
	return fchown(fd, uid == STORAGE_CONTENT_UNSET ? uid : uid + c->shift,
		      gid == STORAGE_CONTENT_UNSET ? gid : gid + c->shift);
}

/* Owner and mode of an open file or directory, as the request has them or by default. */
static int content_give(const struct content *c, int fd, mode_t mode)
{
	uint32_t uid = c->r->uid == STORAGE_CONTENT_UNSET ? ID_DEFAULT : c->r->uid;
	uint32_t gid = c->r->gid == STORAGE_CONTENT_UNSET ? ID_DEFAULT : c->r->gid;

	return content_chown(c, fd, uid, gid) < 0 || fchmod(fd, mode) < 0 ? -1 : 0;
}

/* Make a parent directory, if it is not there. */
static int content_make_parent(const struct content *c, int dir, const char *name)
{
	OWN_FD fd = -1;

	if (mkdirat(dir, name, 0700) < 0)
		return errno == EEXIST ? 0 : -1;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -1 : content_give(c, fd, 0755);
}

/* The directory at the first len bytes of path, and all directories above it. */
static int content_make_parents(const struct content *c, const char *path, size_t len)
{
	char part[CONTENT_PATH_MAX], name[NAME_MAX + 1];
	int dir = content_open(c, "/", O_PATH | O_DIRECTORY);

	for (size_t at = 1; dir >= 0 && at < len;) {
		size_t end = at + strcspn(path + at, "/");
		OWN_FD above = dir;

		if (end - at > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		(void)snprintf(part, sizeof(part), "%.*s", (int)end, path);
		(void)snprintf(name, sizeof(name), "%.*s", (int)(end - at), path + at);
		dir = content_open(c, part, O_PATH | O_DIRECTORY);
		if (dir < 0 && errno == ENOENT) {
			if (content_make_parent(c, above, name) < 0)
				return -1;
			dir = content_open(c, part, O_PATH | O_DIRECTORY);
		}
		at = end + 1;
	}
	return dir;
}

/* parents: makes missing directories, with the owner of the request. EINVAL: the root of the volume
 * has no place. */
static int content_find(const struct content *c, const char *path, bool parents,
			struct content_place *ret, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = (size_t)(slash - path);
	char parent[CONTENT_PATH_MAX];

	errno = EINVAL;
	if (slash[1] == '\0')
		return content_fail(e, path);
	errno = ENAMETOOLONG;
	if (strlen(slash + 1) > NAME_MAX)
		return content_fail(e, path);
	str_copy(ret->name, slash + 1);
	(void)snprintf(parent, sizeof(parent), "%.*s", len == 0 ? 1 : (int)len, path);
	ret->dir = parents && len > 0 ? content_make_parents(c, path, len)
				      : content_open(c, parent, O_PATH | O_DIRECTORY);
	return ret->dir < 0 ? content_fail(e, path) : 0;
}

/* ---- the directory `new`: files while they are written, trees while they are removed
 *
 * A file is locked by the child that writes it. An unlocked entry is a tree to be removed, or was
 * left by a killed child: the process that opens the directory removes it. */

/* Random, so children that work at the same time do not meet. */
static void content_new_name(const char *prefix, char ret_name[32])
{
	rand_id(prefix, ret_name, 32);
}

/* ---- remains */

/* True: no other child works on it. */
static bool content_is_left(int new, const char *name)
{
	OWN_FD fd = openat(new, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Rounds, as others may leave something at the same time. */
static void content_sweep(int new)
{
	bool more = true;
	struct err e;

	for (unsigned round = 0; more && round < 16; round++) {
		int fd = openat(new, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);

		if (d == NULL) {
			if (fd >= 0)
				fd_close(fd);
			return;
		}
		more = false;
		for (struct dirent *entry; (entry = readdir(d)) != NULL;)
			if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			    content_is_left(new, entry->d_name))
				more = tree_remove(new, entry->d_name, &e) == 0 || more;
		(void)closedir(d);
	}
}

/* Open it, and remove what killed children left in it. volume: O_PATH. -1 with errno. */
static int content_new_open(int volume)
{
	int fd = openat(volume, "new", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		content_sweep(fd);
	return fd;
}

/* Make an empty file in it that no other child removes while it is open. */
static int content_new_file(int new, char ret_name[32])
{
	for (int i = 0; i < 16; i++) {
		struct stat st;

		content_new_name("file", ret_name);
		OWN_FD fd = openat(new, ret_name,
				   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
		/* Another child may have removed it before it was locked. */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
		    st.st_nlink > 0)
			return TAKE_FD(fd);
	}
	errno = EBUSY;
	return -1;
}

/* ---- the answer of an operation */

/* 0 or -1. The error's text is of no use, since the reader is gone. */
static int content_put_bytes(const struct content *c, const void *bytes, size_t len)
{
	struct err ignored;

	return io_write_all(c->out, bytes, len, &ignored);
}

/* Each fails if the reader of the answer is gone. */
static int content_put(const struct content *c, const struct content_record *r)
{
	uint8_t bytes[CONTENT_RECORD_MAX];

	return content_put_bytes(c, bytes, content_msg_write(r, bytes));
}

static int64_t content_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint32_t content_type_of(mode_t mode)
{
	return S_ISREG(mode)   ? CONTENT_FILE
	       : S_ISDIR(mode) ? CONTENT_DIRECTORY
	       : S_ISLNK(mode) ? CONTENT_SYMLINK
			       : CONTENT_UNKNOWN;
}

/* The ENTRY of an open file (O_PATH is enough), of which path is the path in the volume. */
static int content_put_entry(const struct content *c, int fd, const char *path)
{
	struct content_record r = { .kind = CONTENT_ENTRY };
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) < 0)
		return -1;
	r.entry = (struct content_entry){ .size = (uint64_t)st.st_size,
					  .atime_ns = content_ns(st.st_atim),
					  .mtime_ns = content_ns(st.st_mtim),
					  .ctime_ns = content_ns(st.st_ctim),
					  .type = content_type_of(st.st_mode),
					  .mode = st.st_mode & 07777,
					  .uid = c->single ? 1000 : st.st_uid - c->shift,
					  .gid = c->single ? 1000 : st.st_gid - c->shift };
	str_copy(r.entry.path, path);
	if (S_ISLNK(st.st_mode))
		n = readlinkat(fd, "", r.entry.target, CONTENT_PATH_MAX - 1);
	if (n < 0)
		return -1;
	return content_put(c, &r);
}

/* ---- operations on entries */

/* A link at the end of the path is described, not followed. */
static int content_stat(const struct content *c, struct err *e)
{
	OWN_FD fd = content_open(c, c->r->path, O_PATH | O_NOFOLLOW);

	if (fd < 0)
		return content_fail(e, c->r->path);
	return content_put_entry(c, fd, c->r->path) < 0 ? content_fail(e, c->r->path) : 0;
}

/* ---- list */

static int content_list_below(const struct content *c, int dir, const char *path, unsigned depth,
			      uint64_t *count, struct err *e);

/* One entry, and with a depth above 1 its content. Entries that vanish are passed over. */
static int content_list_one(const struct content *c, int dir, const char *name, const char *in,
			    unsigned depth, uint64_t *count, struct err *e)
{
	OWN_FD fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	OWN_FD below = -1;
	char path[CONTENT_PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", in[1] == '\0' ? "" : in, name) >=
	    (int)sizeof(path))
		return 0; /* no request could name it */
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : content_fail(e, path);
	if (++*count > c->r->entries_max)
		return err_set(e, ERR_LIMIT, "more than %llu entries: list with a smaller depth",
			       (unsigned long long)c->r->entries_max);
	if (content_put_entry(c, fd, path) < 0)
		return content_fail(e, path);
	if (!S_ISDIR(st.st_mode) || depth <= 1)
		return 0;
	below = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (below < 0)
		return errno == ENOENT ? 0 : content_fail(e, path);
	return content_list_below(c, TAKE_FD(below), path, depth - 1, count, e);
}

/* Take the descriptor over. */
static int content_list_below(const struct content *c, int dir, const char *path, unsigned depth,
			      uint64_t *count, struct err *e)
{
	DIR *d = fdopendir(dir);
	int rc = 0;

	if (d == NULL) {
		fd_close(dir);
		return content_fail(e, path);
	}
	for (struct dirent *entry; rc == 0 && (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = content_list_one(c, dirfd(d), entry->d_name, path, depth, count, e);
	(void)closedir(d);
	return rc;
}

/* depth and entries_max of the request bound the answer. */
static int content_list(const struct content *c, struct err *e)
{
	int fd = content_open(c, c->r->path, O_RDONLY | O_DIRECTORY);
	uint64_t count = 0;

	if (fd < 0)
		return content_fail(e, c->r->path);
	return content_list_below(c, fd, c->r->path, c->r->depth, &count, e);
}

/* ---- make a directory */

static bool content_forced(const struct content *c)
{
	return (c->r->flags & STORAGE_CONTENT_FORCE) != 0;
}

/* There is something of that name: with force a directory is a success, and is not changed. */
static int content_existing(const struct content *c, struct err *e)
{
	OWN_FD fd = content_forced(c) ? content_open(c, c->r->path, O_PATH | O_DIRECTORY) : -1;

	if (fd >= 0)
		return content_put_entry(c, fd, c->r->path) < 0 ? content_fail(e, c->r->path) : 0;
	errno = EEXIST;
	return content_fail(e, c->r->path);
}

/* The directory has its owner and mode before its entry is written to the answer. */
static int content_make(const struct content *c, struct err *e)
{
	mode_t mode = c->r->mode == STORAGE_CONTENT_UNSET ? 0755 : c->r->mode;
	CONTENT_PLACE p = CONTENT_PLACE_NONE;
	OWN_FD fd = -1;

	if (c->r->path[1] == '\0')
		return content_existing(c, e);
	if (content_find(c, c->r->path, content_forced(c), &p, e) < 0)
		return -1;
	if (mkdirat(p.dir, p.name, 0700) < 0)
		return errno == EEXIST ? content_existing(c, e) : content_fail(e, c->r->path);
	fd = openat(p.dir, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || content_give(c, fd, mode) < 0 || content_put_entry(c, fd, c->r->path) < 0)
		return content_fail(e, c->r->path);
	return 0;
}

/* ---- change */

/* A file or directory, opened by its kind as seen: a pipe or a device is never opened. */
static int content_open_plain(const struct content *c, struct err *e)
{
	OWN_FD seen = content_open(c, c->r->path, O_PATH);
	OWN_FD fd = -1;
	struct stat st, now;

	if (seen < 0 || fstat(seen, &st) < 0)
		return content_fail(e, c->r->path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "%.100s: neither a file nor a directory",
			       c->r->path);
	fd = content_open(c, c->r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &now) < 0)
		return content_fail(e, c->r->path);
	if (now.st_dev != st.st_dev || now.st_ino != st.st_ino)
		return err_set(e, ERR_CONFLICT, "%.100s: was replaced meanwhile", c->r->path);
	return TAKE_FD(fd);
}

/* uid, gid and mode that are unset stay as they are. */
static int content_change(const struct content *c, struct err *e)
{
	uint32_t uid = c->r->uid, gid = c->r->gid;
	OWN_FD fd = content_open_plain(c, e);

	if (fd < 0)
		return -1;
	if (((uid & gid) != STORAGE_CONTENT_UNSET && content_chown(c, fd, uid, gid) < 0) ||
	    (c->r->mode != STORAGE_CONTENT_UNSET && fchmod(fd, c->r->mode) < 0) ||
	    content_put_entry(c, fd, c->r->path) < 0)
		return content_fail(e, c->r->path);
	return 0;
}

/* ---- remove */

/* A directory is moved away first: for everyone else it is gone at once and as a whole. */
static int content_remove(const struct content *c, struct err *e)
{
	CONTENT_PLACE p = CONTENT_PLACE_NONE;
	OWN_FD new = -1;
	char name[32];

	if (content_find(c, c->r->path, false, &p, e) < 0)
		return -1;
	if (unlinkat(p.dir, p.name, 0) == 0)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || (new = content_new_open(c->volume)) < 0)
		return content_fail(e, c->r->path);
	content_new_name("gone", name);
	if (renameat(p.dir, p.name, new, name) < 0)
		return content_fail(e, c->r->path);
	/* Entries that cannot be removed now are removed by the next operation that opens the
	 * directory. */
	IGNORED(tree_remove(new, name, e), "see above");
	return 0;
}

/* ---- operations on files
 *
 * A file is written in the directory new and renamed when it is complete and on disk, so a reader
 * sees the old content or the new one, and a client that goes away leaves nothing. An image is
 * sparse: that the disk below it is full shows only when its bytes are brought there. */

#define BUFFER 65536
#define SYNC_BYTES (16U << 20) /* of a file in an image, after which it is brought to disk */
#define NOREPLACE 1U	       /* RENAME_NOREPLACE, which musl hides */

static char buffer[BUFFER];

/* ---- read */

/* *st is that of the opened file. The first look keeps pipes and devices from being opened. */
static int content_open_file(const struct content *c, struct stat *st, struct err *e)
{
	OWN_FD seen = content_open(c, c->r->path, O_PATH);
	OWN_FD fd = -1;

	if (seen < 0 || fstat(seen, st) < 0)
		return content_fail(e, c->r->path);
	errno = EISDIR;
	if (S_ISDIR(st->st_mode))
		return content_fail(e, c->r->path);
	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_INVALID, "%.100s: not a regular file", c->r->path);
	fd = content_open(c, c->r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, st) < 0)
		return content_fail(e, c->r->path);
	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_CONFLICT, "%.100s: was replaced meanwhile", c->r->path);
	return TAKE_FD(fd);
}

/* After DATA no error can be sent: too few bytes show it. */
static int content_send_bytes(const struct content *c, int fd, uint64_t left)
{
	while (left > 0) {
		size_t want = left < BUFFER ? (size_t)left : BUFFER;
		ssize_t n = read(fd, buffer, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || content_put_bytes(c, buffer, (size_t)n) < 0)
			_exit(1);
		left -= (uint64_t)n;
	}
	return 0;
}

/* The length is announced first. A file that grows afterwards is cut there. */
static int content_read(const struct content *c, struct err *e)
{
	struct content_record data = { .kind = CONTENT_DATA };
	struct stat st;
	OWN_FD fd = content_open_file(c, &st, e);

	if (fd < 0)
		return -1;
	data.len = (uint64_t)st.st_size;
	if (content_put_entry(c, fd, c->r->path) < 0 || content_put(c, &data) < 0)
		return content_fail(e, c->r->path);
	return content_send_bytes(c, fd, data.len);
}

/* ---- write */

/* Is there room for so many bytes more? What is written to an image takes room on the disk below
 * only when it is brought there. */
static int content_take_room(const struct content *c, int fd, uint64_t bytes, struct err *e)
{
	static uint64_t since;

	since += bytes;
	if (c->room >= 0 && since >= SYNC_BYTES) {
		since = 0;
		if (fdatasync(fd) < 0)
			return content_fail(e, c->r->path);
	}
	return storage_room_take(c->room >= 0 ? c->room : fd, bytes, e);
}

/* Take the chunks of the client. Bytes, reserve and the end of the stream are checked on the way.
 */
static int content_fill(const struct content *c, int fd, struct err *e)
{
	uint64_t total = 0;
	ssize_t n;

	storage_room_keep(c->r->reserve_percent);

	while ((n = chunk_in_read(c->in, buffer, BUFFER, e)) > 0) {
		total += (uint64_t)n;
		if (total > c->r->bytes_max)
			return err_set_reason(e, REASON_TOO_LARGE, "%.100s: more than %llu bytes",
					      c->r->path, (unsigned long long)c->r->bytes_max);
		if (content_take_room(c, fd, (uint64_t)n, e) < 0)
			return -1;
		if (io_write_all(fd, buffer, (size_t)n, e) < 0)
			return -1; /* it has set errno */
	}
	return n < 0 ? -1 : 0;
}

/* Before the content is read: is the path one that can be written? */
static int content_check(const struct content *c, const struct content_place *p, struct err *e)
{
	struct stat st;

	if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : content_fail(e, c->r->path);
	errno = S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
	if (S_ISDIR(st.st_mode) || (c->r->flags & STORAGE_CONTENT_FORCE) == 0)
		return content_fail(e, c->r->path);
	return 0;
}

/* On disk first, then renamed. Without force a file that has come in between wins. */
static int content_commit(const struct content *c, const struct content_place *p, int new,
			  const char *name, int fd, struct err *e)
{
	bool force = (c->r->flags & STORAGE_CONTENT_FORCE) != 0;
	mode_t mode = c->r->mode == STORAGE_CONTENT_UNSET ? 0644 : c->r->mode;

	if (content_give(c, fd, mode) < 0 || fsync(fd) < 0)
		return content_fail(e, c->r->path);
	if ((int)syscall(SYS_renameat2, new, name, p->dir, p->name, force ? 0 : NOREPLACE) < 0)
		return content_fail(e, c->r->path);
	return content_put_entry(c, fd, c->r->path) < 0 ? content_fail(e, c->r->path) : 0;
}

/* Missing parents are made when the content is complete. */
static int content_find_file(const struct content *c, bool parents, struct content_place *ret,
			     struct err *e)
{
	bool force = (c->r->flags & STORAGE_CONTENT_FORCE) != 0;

	if (content_find(c, c->r->path, parents && force, ret, e) < 0)
		return !parents && force && e->sys == ENOENT ? 0 : -1;
	return content_check(c, ret, e);
}

/* The path is checked before the content is read, and again behind it. After an error the new file
 * is removed. */
static int content_write(const struct content *c, struct err *e)
{
	CONTENT_PLACE p = CONTENT_PLACE_NONE;
	OWN_FD new = -1;
	OWN_FD fd = -1;
	char name[32];

	if (c->r->path[1] == '\0') {
		errno = EISDIR;
		return content_fail(e, c->r->path);
	}
	if (content_find_file(c, false, &p, e) < 0)
		return -1;
	content_place_release(&p);
	if ((new = content_new_open(c->volume)) < 0 || (fd = content_new_file(new, name)) < 0)
		return content_fail(e, c->r->path);
	if (content_fill(c, fd, e) == 0 && content_find_file(c, true, &p, e) == 0 &&
	    content_commit(c, &p, new, name, fd, e) == 0)
		return 0;
	(void)unlinkat(new, name, 0);
	return -1;
}

/* Does the operation of the request, and writes the answer to out. Errors are in that answer. */
static void content_run(struct content *c)
{
	static int (*const ops[])(const struct content *c, struct err *e) = {
		[STORAGE_CONTENT_LIST] = content_list,
		[STORAGE_CONTENT_STAT] = content_stat,
		[STORAGE_CONTENT_MAKE] = content_make,
		[STORAGE_CONTENT_CHANGE] = content_change,
		[STORAGE_CONTENT_REMOVE] = content_remove,
		[STORAGE_CONTENT_READ] = content_read,
		[STORAGE_CONTENT_WRITE] = content_write,
	};
	struct content_record last = { .kind = CONTENT_END };
	struct err e = { 0 };

	if (ops[c->r->what](c, &e) < 0)
		last = (struct content_record){ .kind = CONTENT_ERROR, .error = e };
	IGNORED(content_put(c, &last), "the reader is gone, which ends the operation, too");
}

/* In the worker. Failures before the operation go into the answer, too. */
static void NORETURN content_work(const struct storage_run *run, int volume, int room)
{
	const struct storage_content *r = &run->r->content;
	struct content c = { .r = r,
			     .volume = volume,
			     .room = room,
			     .out = run->fds[0],
			     .in = r->what == STORAGE_CONTENT_WRITE ? run->fds[1] : -1,
			     .single = storage_jail_ids().single,
			     .shift = storage_jail_ids().shift };
	struct content_record failed = { .kind = CONTENT_ERROR };

	if (storage_jail_confine_worker(&(struct storage_worker_dirs){ .dir = volume },
					&failed.error) == 0) {
		c.data = openat(volume, "data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (c.data >= 0) {
			content_run(&c);
			_exit(0);
		}
		IGNORED(err_sys(&failed.error, "open the volume"), "sent below");
	}
	IGNORED(content_put(&c, &failed), "the reader is gone");
	_exit(1);
}

/* Its directory, or the mount of its image that came with the request. */
static int content_open_volume(const struct storage_run *run, struct err *e)
{
	const struct storage_content *r = &run->r->content;
	struct stat st;
	int fd;

	if ((r->flags & STORAGE_CONTENT_ROOT) != 0) {
		fd = fcntl(run->fds[1 + (r->what == STORAGE_CONTENT_WRITE)], F_DUPFD_CLOEXEC, 3);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
			return fd;
		if (fd >= 0)
			fd_close(fd);
		return err_set(e, ERR_INVALID, "the mount of the volume is no directory");
	}
	OWN_FD volumes = storage_ops_open_volumes(e);
	if (volumes < 0)
		return -1;
	fd = openat(volumes, r->volume, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? storage_ops_fail(e, "open the volume") : fd;
}

/* The image, with which nothing can be done but to look at its file system. -1: there is none. */
static int content_open_image(const struct storage_content *r)
{
	OWN_FD volumes = -1;
	struct err ignored;
	char path[STORAGE_ID_MAX + 8];

	if ((r->flags & STORAGE_CONTENT_ROOT) == 0)
		return -1;
	volumes = storage_ops_open_volumes(&ignored);
	(void)snprintf(path, sizeof(path), "%s/image", r->volume);
	return volumes < 0 ? -1 : openat(volumes, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

int op_content(struct storage_run *run, struct err *e)
{
	int opened = content_open_volume(run, e);
	pid_t pid;

	if (opened < 0)
		return -1;
	OWN_FD volume = opened;
	OWN_FD room = content_open_image(&run->r->content);
	pid = fork();
	if (pid == 0)
		content_work(run, volume, room);
	if (pid < 0)
		return err_sys(e, "fork");
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0; /* what happened is in the answer that it has written */
}
