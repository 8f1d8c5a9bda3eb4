/* file_write.c - the built-in write: copies its input to a file, and decompresses gzip. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_entry.h"
#include "cell/init/files/file_names.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_stage.h"
#include "cell/init/files/file_user.h"
#include "cell/init/files/file_xattr.h"
#include "lib/base/units.h"

/* Writes a file, completely or not at all, with owner, mode and metadata.
 *
 * The content is staged in a file without a name. When it is complete, the file appears by a rename
 * over the old one. So a client that disconnects changes nothing, and a reader sees the old content
 * or the new one.
 *
 * A rename needs the right to change the directory, and the new file has another owner. Where the
 * owner cannot be kept, or the path is a mount point, or the directory cannot be changed, a file
 * that the user may write is written in place instead, still only when the content is complete.
 * Appending always writes in place.
 *
 * inotify reports only the creation of a staged file, as it appears with owner and content. Clients
 * expect the events of a program that creates a file, sets its owner and writes it, as E2B's envd
 * does: create, chmod, write. So the other two events are caused when the file is in place, by
 * calls that change nothing (file_put_announce()). Where a staged file has a name from the start,
 * watch.c adds them: gVisor reports no such calls. */

#define FILE_PUT_KEEP UINT32_MAX

struct file_put {
	const char *path;
	uint32_t mode, uid, gid; /* FILE_PUT_KEEP: as the old file, or the default */
	bool parents, append, exclusive;
	const struct file_xattr *meta; /* NULL: not changed */
};

#define FAR (1LL << 40) /* larger than any file of a cell */

struct old {
	bool exists;
	struct stat st;
};

/* Default values, with the owner of --for (file_user.h). */
static struct file_put file_put_for_user(const char *path)
{
	struct file_put r = {
		.path = path, .mode = FILE_PUT_KEEP, .uid = FILE_PUT_KEEP, .gid = FILE_PUT_KEEP
	};

	(void)file_user_owner(&r.uid, &r.gid);
	return r;
}

/* Read the status of the old file, and check that it may be replaced. */
static int file_put_check_old(const struct file_put *r, const struct file_place *p, struct old *ret,
			      struct err *e)
{
	ret->exists = fstatat(p->dir, p->name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!ret->exists)
		return errno == ENOENT ? 0 : builtin_io_fail(e, "stat", r->path);
	if (r->exclusive)
		errno = EEXIST;
	else if (S_ISDIR(ret->st.st_mode))
		errno = EISDIR;
	else if (S_ISREG(ret->st.st_mode) && faccessat(p->dir, p->name, W_OK, 0) == 0)
		return 0;
	else if (!S_ISREG(ret->st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", r->path);
	return builtin_io_fail(e, "write", r->path);
}

static int file_put_open_stage(const struct file_put *r, const struct file_place *p,
			       const struct old *old, struct file_stage *ret, struct err *e)
{
	OWN_FD tmp = -1;

	if (file_stage_open(p->dir, ret) == 0)
		return 0;
	if (old->exists && (errno == EACCES || errno == EROFS || errno == EPERM)) {
		int why = errno;

		tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (tmp >= 0 && file_stage_open(tmp, ret) == 0 && ret->name[0] == '\0')
			return 0;
		file_stage_drop(ret);
		errno = why;
	}
	return builtin_io_fail(e, "write", r->path);
}

/* Set owner, mode and metadata of the staged file. Return 1 if it cannot keep the old owner. */
static int file_put_set_owner_and_mode(const struct file_put *r, const struct old *old, int fd,
				       struct err *e)
{
	uint32_t uid = r->uid, gid = r->gid, mode = r->mode;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return builtin_io_fail(e, "stat", r->path);
	if (uid == FILE_PUT_KEEP)
		uid = old->exists ? old->st.st_uid : st.st_uid;
	if (gid == FILE_PUT_KEEP)
		gid = old->exists ? old->st.st_gid : st.st_gid;
	if (mode == FILE_PUT_KEEP)
		mode = old->exists ? old->st.st_mode & (file_user_is_set() ? 0777 : 07777) : 0644;
	if ((uid != st.st_uid || gid != st.st_gid) && fchown(fd, uid, gid) < 0) {
		if (r->uid == FILE_PUT_KEEP && r->gid == FILE_PUT_KEEP && errno == EPERM)
			return 1;
		return builtin_io_fail(e, "change owner", r->path);
	}
	if (fchmod(fd, mode) < 0)
		return builtin_io_fail(e, "change mode", r->path);
	return r->meta == NULL ? 0 : file_xattr_replace(fd, r->meta, r->path, e);
}

static int file_put_write_in_place(const struct file_put *r, const struct file_place *p,
				   const struct file_stage *s, struct err *e)
{
	OWN_FD fd = openat(p->dir, p->name,
			   O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
				   (r->append ? O_APPEND : 0));
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return builtin_io_fail(e, "open", r->path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", r->path);
	/* First, because this may fail. */
	if (r->meta != NULL && file_xattr_replace(fd, r->meta, r->path, e) < 0)
		return -1;
	if (!r->append && ftruncate(fd, 0) < 0)
		return builtin_io_fail(e, "truncate", r->path);
	if (file_stage_copy(s->fd, fd) < 0)
		return builtin_io_fail(e, "write", r->path);
	if ((r->uid != FILE_PUT_KEEP || r->gid != FILE_PUT_KEEP) && fchown(fd, r->uid, r->gid) < 0)
		return builtin_io_fail(e, "change owner", r->path);
	if (r->mode != FILE_PUT_KEEP && fchmod(fd, r->mode) < 0)
		return builtin_io_fail(e, "change mode", r->path);
	return 0;
}

static int file_put_commit(const struct file_put *r, const struct file_place *p,
			   struct file_stage *s, struct old *old, struct err *e)
{
	bool elsewhere = s->dir != p->dir; /* staged elsewhere: it cannot be renamed */
	int rc;

	if (file_put_check_old(r, p, old, e) < 0)
		return -1;
	if (old->exists && (r->append || elsewhere))
		return file_put_write_in_place(r, p, s, e);
	rc = file_put_set_owner_and_mode(r, old, s->fd, e);
	if (rc != 0)
		return rc < 0 ? -1 : file_put_write_in_place(r, p, s, e);
	if (file_stage_link(s, p->dir, p->name, !r->exclusive) == 0)
		return 0;
	if (old->exists && (errno == EBUSY || errno == EPERM || errno == EACCES))
		return file_put_write_in_place(r, p, s, e);
	return builtin_io_fail(e, "write", r->path);
}

/* Set the mode that the file has, and punch a hole behind its end: inotify reports a change of mode
 * and a write. If that fails (the file belongs to another user, or another process has replaced
 * it), watchers get fewer events. */
static void file_put_announce(const struct file_place *p)
{
	OWN_FD fd =
		openat(p->dir, p->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	(void)fchmod(fd, st.st_mode & 07777);
	if (st.st_size < FAR)
		(void)syscall(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, FAR,
			      4096LL);
}

static int file_put_stage_and_commit(const struct file_put *r,
				     int (*fill)(struct file_stage *s, void *arg, struct err *e),
				     void *arg, const struct file_place *p, struct err *e)
{
	FILE_STAGE stage = FILE_STAGE_NONE;
	struct old old;

	bool named;

	if (file_put_check_old(r, p, &old, e) < 0 || file_put_open_stage(r, p, &old, &stage, e) < 0)
		return -1;
	named = stage.name[0] != '\0';
	if (fill(&stage, arg, e) < 0 || file_put_commit(r, p, &stage, &old, e) < 0)
		return -1;
	if (!old.exists && !named)
		file_put_announce(p);
	return old.exists;
}

/* Stage a file (file_stage.h), call `fill` to write its content, and put it in place. The caller
 * owns *ret, where the file is. On failure nothing has changed, parents included. Except that a
 * file that can only be written in place may be incomplete if the disk is full. Return 1 if there
 * was a file before, else 0. */
static int file_put(const struct file_put *r,
		    int (*fill)(struct file_stage *s, void *arg, struct err *e), void *arg,
		    struct file_place *ret, struct err *e)
{
	unsigned flags = FILE_PLACE_FOLLOW | (r->parents ? FILE_PLACE_PARENTS : 0);
	int existed = -1;

	if (file_resolve_find(r->path, flags, ret, e) == 0)
		existed = file_put_stage_and_commit(r, fill, arg, ret, e);
	if (existed < 0)
		file_resolve_unmake();
	return existed;
}

/* Send the ENTRY of the file. existed: the result of file_put(). */
static int file_put_send_entry(const struct file_put *r, const struct file_place *p, int existed,
			       struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	OWN_FD fd = file_resolve_open_at(p, real, e);

	return fd < 0 ? -1
		      : file_entry_send(fd, real, r->path, existed > 0 ? FILE_MSG_EXISTED : 0, e);
}

/* The built-in join: makes one file of parts uploaded one by one.
 *
 * All sources are opened and checked first. Their content is staged and put in place as by any
 * other write. Only then are the sources removed, each only if it is still the read
 * file. A source at the destination's path is replaced. */

static struct joined_file {
	struct file_place place;
	struct stat st;
	int fd;
} joined[BUILTIN_SOURCES_MAX];
static size_t njoined;

static int file_join_open_source(const char *path, struct joined_file *s, struct err *e)
{
	if (file_resolve_find(path, 0, &s->place, e) < 0)
		return -1;
	s->fd = openat(s->place.dir, s->place.name,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &s->st) < 0)
		return builtin_io_fail(e, "open", path);
	if (S_ISDIR(s->st.st_mode)) {
		errno = EISDIR;
		return builtin_io_fail(e, "open", path);
	}
	if (!S_ISREG(s->st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", path);
	/* It is removed in the end: fail now if the user may not remove it. */
	if (faccessat(s->place.dir, ".", W_OK | X_OK, 0) < 0)
		return builtin_io_fail(e, "remove", path);
	return 0;
}

static int file_join_fill(struct file_stage *stage, void *arg, struct err *e)
{
	for (size_t i = 0; i < njoined; i++)
		if (file_stage_copy(joined[i].fd, stage->fd) < 0)
			return builtin_io_fail(e, "copy", joined[i].place.name);
	return 0;
}

static int file_join_remove_source(const struct joined_file *s, const char *path, struct err *e)
{
	struct stat st;

	if (fstatat(s->place.dir, s->place.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_dev != s->st.st_dev || st.st_ino != s->st.st_ino)
		return 0;
	if (unlinkat(s->place.dir, s->place.name, 0) < 0 && errno != ENOENT)
		return builtin_io_fail(e, "remove", path);
	return 0;
}

/* Is the source the result? Then it is not removed. */
static bool file_join_is_result(const struct joined_file *s, const struct file_place *result)
{
	struct stat a, b;

	return strcmp(s->place.name, result->name) == 0 && fstat(s->place.dir, &a) == 0 &&
	       fstat(result->dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int file_join(int argc, char **argv, struct err *e)
{
	static const struct file_xattr none;
	struct file_put r = file_put_for_user(argv[0]);
	FILE_PLACE p = FILE_PLACE_NONE;
	int existed;

	r.parents = true;
	r.meta = &none;
	for (int i = 1; i < argc; i++)
		if (file_join_open_source(argv[i], &joined[njoined++], e) < 0)
			return -1;
	existed = file_put(&r, file_join_fill, NULL, &p, e);
	if (existed < 0)
		return -1;
	for (size_t i = 0; i < njoined; i++)
		if (!file_join_is_result(&joined[i], &p) &&
		    file_join_remove_source(&joined[i], argv[i + 1], e) < 0)
			return -1;
	return file_put_send_entry(&r, &p, existed, e);
}

struct write_input {
	uint64_t max;
	bool gzip;
};

static int file_write_parse_flags(const char *text, struct file_put *r, bool *ret_gzip,
				  struct err *e)
{
	for (const char *p = strcmp(text, "-") == 0 ? "" : text; *p != '\0'; p++) {
		if (strchr("paxz", *p) == NULL)
			return err_set(e, ERR_INVALID, "write: unknown flag in '%s'", text);
		r->parents |= *p == 'p';
		r->append |= *p == 'a';
		r->exclusive |= *p == 'x';
		*ret_gzip |= *p == 'z';
	}
	return 0;
}

static int file_write_parse(char **argv, struct file_put *r, struct write_input *s, struct err *e)
{
	if (builtin_io_mode(argv[1], &r->mode, e) < 0 ||
	    file_write_parse_flags(argv[3], r, &s->gzip, e) < 0)
		return -1;
	if (strcmp(argv[2], "-") != 0 && !file_names_owner(argv[2], &r->uid, &r->gid))
		return err_set(e, ERR_NOT_FOUND, "no such user or group: %s", argv[2]);
	return units_count(argv[4], 0, INT64_MAX, &s->max, e);
}

static int file_write_fill(struct file_stage *stage, void *arg, struct err *e)
{
	const struct write_input *s = arg;

	return file_stage_fill(stage, s->max, s->gzip, e);
}

int file_write(int argc, char **argv, struct err *e)
{
	static struct file_xattr meta;
	struct file_put r = file_put_for_user(argv[0]);
	FILE_PLACE p = FILE_PLACE_NONE;
	struct write_input s = { 0 };
	int existed;

	if (file_write_parse(argv, &r, &s, e) < 0)
		return -1;
	if (argc > 5 && file_xattr_parse(argv[5], &meta, e) < 0)
		return -1;
	if (argc > 5)
		r.meta = &meta;
	existed = file_put(&r, file_write_fill, &s, &p, e);
	return existed < 0 ? -1 : file_put_send_entry(&r, &p, existed, e);
}
