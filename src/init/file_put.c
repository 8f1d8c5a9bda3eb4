/* file_put.c - theory of operation
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
 * calls that change nothing (announce()). Where a staged file has a name from the start, watch.c
 * adds them: gVisor reports no such calls. */
#include "file_put.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "builtin_io.h"
#include "file_entry.h"
#include "file_user.h"

#define FAR (1LL << 40) /* larger than any file of a cell */

struct old {
	bool exists;
	struct stat st;
};

struct file_put file_put_for_user(const char *path)
{
	struct file_put r = {
		.path = path, .mode = FILE_PUT_KEEP, .uid = FILE_PUT_KEEP, .gid = FILE_PUT_KEEP
	};

	(void)file_user_owner(&r.uid, &r.gid);
	return r;
}

/* Reads the status of the old file, and checks that it may be replaced. */
static int check_old(const struct file_put *r, const struct file_place *p, struct old *ret,
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

static int open_stage(const struct file_put *r, const struct file_place *p, const struct old *old,
		      struct file_stage *ret, struct err *e)
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

/* Sets owner, mode and metadata of the staged file. Returns 1 if it cannot keep the old owner. */
static int set_owner_and_mode(const struct file_put *r, const struct old *old, int fd,
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

static int write_in_place(const struct file_put *r, const struct file_place *p,
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

static int commit(const struct file_put *r, const struct file_place *p, struct file_stage *s,
		  struct old *old, struct err *e)
{
	bool elsewhere = s->dir != p->dir; /* staged elsewhere: it cannot be renamed */
	int rc;

	if (check_old(r, p, old, e) < 0)
		return -1;
	if (old->exists && (r->append || elsewhere))
		return write_in_place(r, p, s, e);
	rc = set_owner_and_mode(r, old, s->fd, e);
	if (rc != 0)
		return rc < 0 ? -1 : write_in_place(r, p, s, e);
	if (file_stage_link(s, p->dir, p->name, !r->exclusive) == 0)
		return 0;
	if (old->exists && (errno == EBUSY || errno == EPERM || errno == EACCES))
		return write_in_place(r, p, s, e);
	return builtin_io_fail(e, "write", r->path);
}

/* Sets the mode that the file has, and punches a hole behind its end: inotify reports a change of
 * mode and a write. If that fails (the file belongs to another user, or was replaced meanwhile),
 * watchers get fewer events. */
static void announce(const struct file_place *p)
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

static int stage_and_commit(const struct file_put *r,
			    int (*fill)(struct file_stage *s, void *arg, struct err *e), void *arg,
			    const struct file_place *p, struct err *e)
{
	FILE_STAGE stage = FILE_STAGE_NONE;
	struct old old;

	bool named;

	if (check_old(r, p, &old, e) < 0 || open_stage(r, p, &old, &stage, e) < 0)
		return -1;
	named = stage.name[0] != '\0';
	if (fill(&stage, arg, e) < 0 || commit(r, p, &stage, &old, e) < 0)
		return -1;
	if (!old.exists && !named)
		announce(p);
	return old.exists;
}

int file_put(const struct file_put *r, int (*fill)(struct file_stage *s, void *arg, struct err *e),
	     void *arg, struct file_place *ret, struct err *e)
{
	unsigned flags = FILE_PLACE_FOLLOW | (r->parents ? FILE_PLACE_PARENTS : 0);
	int existed = -1;

	if (file_resolve_find(r->path, flags, ret, e) == 0)
		existed = stage_and_commit(r, fill, arg, ret, e);
	if (existed < 0)
		file_resolve_unmake();
	return existed;
}

int file_put_send_entry(const struct file_put *r, const struct file_place *p, int existed,
			struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	OWN_FD fd = file_resolve_open_at(p, real, e);

	return fd < 0 ? -1
		      : file_entry_send(fd, real, r->path, existed > 0 ? FILE_MSG_EXISTED : 0, e);
}
