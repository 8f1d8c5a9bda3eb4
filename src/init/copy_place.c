#include "copy_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin.h"
#include "builtin_io.h"
#include "file_resolve.h"
#include "file_stage.h"
#include "file_user.h"
#include "kernel.h"

/* ---- owner and mode */

static int set_one(int dir, const char *name, const struct copy_owner *o, uint32_t mode,
		   struct err *e)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return builtin_io_fail(e, "copy: stat", name);
	/* First the owner: changing it clears bits of the mode. */
	if (o->set && fchownat(dir, name, o->uid, o->gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return builtin_io_fail(e, "copy: chown", name);
	if (mode != COPY_MODE_KEPT && !S_ISLNK(st.st_mode) &&
	    fchmodat(dir, name[0] == '\0' ? "." : name, mode, 0) < 0)
		return builtin_io_fail(e, "copy: chmod", name);
	return 0;
}

static int walk_set(int fd, const struct copy_owner *o, uint32_t mode, unsigned depth,
		    struct err *e)
{
	DIR *d = fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (d == NULL) {
		fd_close(fd);
		return builtin_io_fail(e, "copy", "open directory");
	}
	while (rc == 0 && (entry = readdir(d)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int sub = openat(dirfd(d), entry->d_name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (sub >= 0 && depth == 0) {
			fd_close(sub);
			rc = err_set(e, ERR_LIMIT, "copy: too many levels");
		} else if (sub >= 0) {
			rc = walk_set(sub, o, mode, depth - 1, e);
		}
		if (rc == 0)
			rc = set_one(dirfd(d), entry->d_name, o, mode, e);
	}
	(void)closedir(d);
	return rc;
}

int copy_place_prepare(int fd, const struct copy_owner *owner, uint32_t mode, struct err *e)
{
	char self[40];
	struct stat st;
	int dir;

	if (!owner->set && mode == COPY_MODE_KEPT)
		return 0;
	if (fstat(fd, &st) < 0)
		return builtin_io_fail(e, "copy", "stat");
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (S_ISDIR(st.st_mode)) {
		dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			return builtin_io_fail(e, "copy", "open directory");
		if (walk_set(dir, owner, mode, BUILTIN_DEPTH_MAX, e) < 0)
			return -1;
	}
	if (owner->set && fchownat(fd, "", owner->uid, owner->gid, KERNEL_FD_EMPTY_PATH) < 0)
		return builtin_io_fail(e, "copy", "chown");
	if (mode != COPY_MODE_KEPT && !S_ISLNK(st.st_mode) && chmod(self, mode) < 0)
		return builtin_io_fail(e, "copy", "chmod");
	return 0;
}

/* ---- one entry that is not a directory */

/* Between two mounts a file is copied. */
static int copy_file(int from, const char *name, const struct stat *st, int to, const char *as)
{
	OWN_FD in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const struct timespec times[2] = { { 0, UTIME_NOW }, st->st_mtim };
	FILE_STAGE stage = FILE_STAGE_NONE;

	if (in < 0 || file_stage_open(to, &stage) < 0 || file_stage_copy(in, stage.fd) < 0 ||
	    fchown(stage.fd, st->st_uid, st->st_gid) < 0 ||
	    fchmod(stage.fd, st->st_mode & 07777) < 0 || futimens(stage.fd, times) < 0)
		return -1;
	return file_stage_link(&stage, to, as, true);
}

static int copy_link(int from, const char *name, const struct stat *st, int to, const char *as)
{
	char target[FILE_MSG_PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	if (symlinkat(target, to, as) < 0)
		return -1;
	return fchownat(to, as, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
}

static int move_entry(int from, const char *name, int to, const char *as, struct err *e)
{
	struct stat st, there;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return builtin_io_fail(e, "copy: stat", name);
	if (fstatat(to, as, &there, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EISDIR;
		if (S_ISDIR(there.st_mode))
			return builtin_io_fail(e, "copy: a directory is in the place of", as);
		if (unlinkat(to, as, 0) < 0)
			return builtin_io_fail(e, "copy: replace", as);
	}
	if (renameat(from, name, to, as) == 0)
		return 0;
	if (errno != EXDEV)
		return builtin_io_fail(e, "copy: move to", as);
	if ((S_ISLNK(st.st_mode) ? copy_link(from, name, &st, to, as)
				 : copy_file(from, name, &st, to, as)) < 0)
		return builtin_io_fail(e, "copy: copy to", as);
	return 0;
}

/* ---- directories */

/* Opens the directory of that name, made with owner and mode of another if it is missing. A link to
 * a directory is followed; what is no directory is replaced. */
static int enter(int from_dir, int to, const char *name, struct err *e)
{
	int fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0)
		return fd;
	if (errno != ENOENT && unlinkat(to, name, 0) < 0)
		return builtin_io_fail(e, "copy: replace", name);
	if (fstat(from_dir, &st) < 0 ||
	    (mkdirat(to, name, 0700) < 0 &&
	     (errno != EEXIST || unlinkat(to, name, 0) < 0 || mkdirat(to, name, 0700) < 0)))
		return builtin_io_fail(e, "copy: make directory", name);
	fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchown(fd, st.st_uid, st.st_gid) < 0 || fchmod(fd, st.st_mode & 07777) < 0) {
		fd_close(fd);
		return builtin_io_fail(e, "copy: make directory", name);
	}
	return fd;
}

static int merge(int from, int to, unsigned depth, struct err *e);

static int merge_one(int from, const char *name, int to, unsigned depth, struct err *e)
{
	OWN_FD dir = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN_FD there = -1;

	if (dir < 0)
		return move_entry(from, name, to, name, e);
	if (depth == 0)
		return err_set(e, ERR_LIMIT, "copy: too many levels");
	there = enter(dir, to, name, e);
	return there < 0 ? -1 : merge(dir, there, depth - 1, e);
}

/* Entries move away while the directory is read, which readdir(3) allows. */
static int merge(int from, int to, unsigned depth, struct err *e)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (d == NULL)
		return builtin_io_fail(e, "copy", "open directory");
	while (rc == 0 && (entry = readdir(d)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = merge_one(from, entry->d_name, to, depth, e);
	(void)closedir(d);
	return rc;
}

/* ---- the destination */

/* A directory that exists, a link to one, or one that is made with its parents. */
static int open_directory(const char *path, int like, struct err *e)
{
	FILE_PLACE p = FILE_PLACE_NONE;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 || strcmp(path, "/") == 0)
		return fd >= 0 ? fd : builtin_io_fail(e, "copy: open", path);
	if (file_resolve_find(path, FILE_PLACE_FOLLOW | FILE_PLACE_PARENTS, &p, e) < 0)
		return -1;
	if (like >= 0)
		return enter(like, p.dir, p.name, e);
	if (mkdirat(p.dir, p.name, 0755) < 0)
		return builtin_io_fail(e, "copy: make directory", path);
	fd = openat(p.dir, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && file_user_give(fd) == 0)
		return fd;
	fd_close(fd);
	return builtin_io_fail(e, "copy: make directory", path);
}

int copy_place_put(int top, const char *name, int fd, const char *dest, bool into, struct err *e)
{
	const char *slash = strrchr(name, '/'), *own = slash == NULL ? name : slash + 1;
	FILE_PLACE p = FILE_PLACE_NONE;
	OWN_FD dir = -1;
	OWN_FD from = -1;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return builtin_io_fail(e, "copy: stat", name);
	if (S_ISDIR(st.st_mode)) {
		from = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dir = from < 0 ? builtin_io_fail(e, "copy: open", name)
			       : open_directory(dest, from, e);
		return dir < 0 ? -1 : merge(from, dir, BUILTIN_DEPTH_MAX, e);
	}
	dir = into ? open_directory(dest, -1, e) : open(dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0 || into)
		return dir < 0 ? -1 : move_entry(top, name, dir, own, e);
	if (file_resolve_find(dest, FILE_PLACE_PARENTS, &p, e) < 0)
		return -1;
	return move_entry(top, name, p.dir, p.name, e);
}
