/* file_write.c - theory of operation
 *
 * The content is staged first, where nobody sees it: only when the input says that it is complete
 * does it appear, by a rename over what was there. So a client that goes away in the middle changes
 * nothing, and a reader sees the old content or the new.
 *
 * A rename needs the right to change the directory, and gives the file a new owner. Where it cannot
 * keep the owner, or the place is a mount point, or the directory is not ours, a file that we may
 * write is written in place instead, still only with complete content. Appending is always that. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin_io.h"
#include "builtin_table.h"
#include "file_entry.h"
#include "file_names.h"
#include "file_place.h"
#include "file_stage.h"
#include "units.h"

#define KEEP UINT32_MAX

struct request {
	const char *path;
	uint32_t mode, uid, gid; /* KEEP: of the file there was, or the default */
	bool parents, append, exclusive;
	uint64_t max;
};

struct old {
	bool exists;
	struct stat st;
};

static int parse_flags(const char *text, struct request *r, struct err *e)
{
	for (const char *p = strcmp(text, "-") == 0 ? "" : text; *p != '\0'; p++) {
		if (strchr("pax", *p) == NULL)
			return err_set(e, ERR_INVALID, "write: unknown flag in '%s'", text);
		r->parents |= *p == 'p';
		r->append |= *p == 'a';
		r->exclusive |= *p == 'x';
	}
	return 0;
}

static int parse(char **argv, struct request *r, struct err *e)
{
	r->path = argv[0];
	if (builtin_io_mode(argv[1], &r->mode, e) < 0 || parse_flags(argv[3], r, e) < 0)
		return -1;
	if (strcmp(argv[2], "-") != 0 && !file_names_owner(argv[2], &r->uid, &r->gid))
		return err_set(e, ERR_NOT_FOUND, "no such user or group: %s", argv[2]);
	return units_count(argv[4], 0, INT64_MAX, &r->max, e);
}

/* What is there now, and may it be replaced? */
static int look(const struct request *r, const struct file_place *p, struct old *ret, struct err *e)
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

static int open_stage(const struct request *r, const struct file_place *p, const struct old *old,
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

/* Owner and mode of what is staged. Returns 1 if it cannot have the owner it should keep. */
static int dress(const struct request *r, const struct old *old, int fd, struct err *e)
{
	uint32_t uid = r->uid, gid = r->gid, mode = r->mode;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return builtin_io_fail(e, "stat", r->path);
	if (uid == KEEP)
		uid = old->exists ? old->st.st_uid : st.st_uid;
	if (gid == KEEP)
		gid = old->exists ? old->st.st_gid : st.st_gid;
	if (mode == KEEP)
		mode = old->exists ? old->st.st_mode & 07777 : 0644;
	if ((uid != st.st_uid || gid != st.st_gid) && fchown(fd, uid, gid) < 0) {
		if (r->uid == KEEP && r->gid == KEEP && errno == EPERM)
			return 1;
		return builtin_io_fail(e, "change owner", r->path);
	}
	return fchmod(fd, mode) < 0 ? builtin_io_fail(e, "change mode", r->path) : 0;
}

static int write_in_place(const struct request *r, const struct file_place *p,
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
	if (!r->append && ftruncate(fd, 0) < 0)
		return builtin_io_fail(e, "truncate", r->path);
	if (file_stage_copy(s->fd, fd) < 0)
		return builtin_io_fail(e, "write", r->path);
	if ((r->uid != KEEP || r->gid != KEEP) && fchown(fd, r->uid, r->gid) < 0)
		return builtin_io_fail(e, "change owner", r->path);
	if (r->mode != KEEP && fchmod(fd, r->mode) < 0)
		return builtin_io_fail(e, "change mode", r->path);
	return 0;
}

static int commit(const struct request *r, const struct file_place *p, struct file_stage *s,
		  struct old *old, struct err *e)
{
	bool elsewhere = s->dir != p->dir; /* it cannot be linked here */
	int rc;

	if (look(r, p, old, e) < 0)
		return -1;
	if (old->exists && (r->append || elsewhere))
		return write_in_place(r, p, s, e);
	rc = dress(r, old, s->fd, e);
	if (rc != 0)
		return rc < 0 ? -1 : write_in_place(r, p, s, e);
	if (file_stage_link(s, p->dir, p->name, !r->exclusive) == 0)
		return 0;
	if (old->exists && (errno == EBUSY || errno == EPERM || errno == EACCES))
		return write_in_place(r, p, s, e);
	return builtin_io_fail(e, "write", r->path);
}

static int receive(const struct request *r, const struct file_place *p, struct old *old,
		   struct err *e)
{
	FILE_STAGE stage = FILE_STAGE_NONE;

	if (look(r, p, old, e) < 0 || open_stage(r, p, old, &stage, e) < 0 ||
	    file_stage_fill(&stage, r->max, e) < 0)
		return -1;
	return commit(r, p, &stage, old, e);
}

int file_write(int argc, char **argv, struct err *e)
{
	struct request r = { .mode = KEEP, .uid = KEEP, .gid = KEEP };
	char real[FILE_MSG_PATH_MAX];
	FILE_PLACE p = FILE_PLACE_NONE;
	OWN_FD result = -1;
	struct old old;

	(void)argc;
	if (parse(argv, &r, e) < 0)
		return -1;
	if (file_place_find(r.path, FILE_PLACE_FOLLOW | (r.parents ? FILE_PLACE_PARENTS : 0), &p,
			    e) < 0 ||
	    receive(&r, &p, &old, e) < 0) {
		file_place_unmake();
		return -1;
	}
	result = file_place_open_at(&p, real, e);
	if (result < 0)
		return -1;
	return file_entry_say(result, real, old.exists ? FILE_MSG_EXISTED : 0, e);
}
