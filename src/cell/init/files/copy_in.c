/* copy_in.c - the built-in copy-in: extracts an archive aside and puts one entry of it at its
 * place, as COPY of a build does (doc/file-protocol.md). Run as root of the cell, for the user of
 * the build.
 *
 * The archive is untrusted, but so is everything in the cell: what matters is that nothing outside
 * of the temporary directory is changed by names in the archive (tar_in.c sees to it), and that the
 * temporary directory is gone in the end, whatever happens. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_names.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_stage.h"
#include "cell/init/files/file_user.h"
#include "cell/init/files/open_path.h"
#include "cell/init/files/tar_in.h"
#include "lib/base/err.h"
#include "lib/base/inflate.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/rmtree.h"
#include "lib/base/units.h"

#define STAGE "/.cordon-copy-XXXXXX"
#define ENTRY_BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* Puts files and trees where a COPY of a build wants them. Called by copy_in.c. */

#define COPY_MODE_KEPT UINT32_MAX

struct copy_owner {
	bool set;
	uint32_t uid, gid;
};

/* ---- owner and mode */

static int copy_in_set_one(int dir, const char *name, const struct copy_owner *o, uint32_t mode,
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

static int copy_in_walk_set(int fd, const struct copy_owner *o, uint32_t mode, unsigned depth,
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
			rc = copy_in_walk_set(sub, o, mode, depth - 1, e);
		}
		if (rc == 0)
			rc = copy_in_set_one(dirfd(d), entry->d_name, o, mode, e);
	}
	(void)closedir(d);
	return rc;
}

/* Set owner and mode of an entry and everything below it. Modes of links are never set. fd: of the
 * entry, may be O_PATH. */
static int copy_in_prepare(int fd, const struct copy_owner *owner, uint32_t mode, struct err *e)
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
		if (copy_in_walk_set(dir, owner, mode, BUILTIN_DEPTH_MAX, e) < 0)
			return -1;
	}
	if (owner->set && fchownat(fd, "", owner->uid, owner->gid, KERNEL_FD_EMPTY_PATH) < 0)
		return builtin_io_fail(e, "copy", "chown");
	if (mode != COPY_MODE_KEPT && !S_ISLNK(st.st_mode) && chmod(self, mode) < 0)
		return builtin_io_fail(e, "copy", "chmod");
	return 0;
}

/* ---- one entry other than a directory */

/* Between two mounts a file is copied. */
static int copy_in_copy_file(int from, const char *name, const struct stat *st, int to,
			     const char *as)
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

static int copy_in_copy_link(int from, const char *name, const struct stat *st, int to,
			     const char *as)
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

static int copy_in_move_entry(int from, const char *name, int to, const char *as, struct err *e)
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
	if ((S_ISLNK(st.st_mode) ? copy_in_copy_link(from, name, &st, to, as)
				 : copy_in_copy_file(from, name, &st, to, as)) < 0)
		return builtin_io_fail(e, "copy: copy to", as);
	return 0;
}

/* ---- directories */

/* Open the directory of that name, made with owner and mode of another if it is missing. A link to
 * a directory is followed. An entry other than a directory is replaced. */
static int copy_in_enter(int from_dir, int to, const char *name, struct err *e)
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

static int copy_in_merge(int from, int to, unsigned depth, struct err *e);

static int copy_in_merge_one(int from, const char *name, int to, unsigned depth, struct err *e)
{
	OWN_FD dir = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN_FD there = -1;

	if (dir < 0)
		return copy_in_move_entry(from, name, to, name, e);
	if (depth == 0)
		return err_set(e, ERR_LIMIT, "copy: too many levels");
	there = copy_in_enter(dir, to, name, e);
	return there < 0 ? -1 : copy_in_merge(dir, there, depth - 1, e);
}

/* Entries move away while the directory is read, which readdir(3) allows. */
static int copy_in_merge(int from, int to, unsigned depth, struct err *e)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (d == NULL)
		return builtin_io_fail(e, "copy", "open directory");
	while (rc == 0 && (entry = readdir(d)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = copy_in_merge_one(from, entry->d_name, to, depth, e);
	(void)closedir(d);
	return rc;
}

/* ---- the destination */

/* An existing directory, a link to one, or a new one with its parents. */
static int copy_in_open_directory(const char *path, int like, struct err *e)
{
	FILE_PLACE p = FILE_PLACE_NONE;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 || strcmp(path, "/") == 0)
		return fd >= 0 ? fd : builtin_io_fail(e, "copy: open", path);
	if (file_resolve_find(path, FILE_PLACE_FOLLOW | FILE_PLACE_PARENTS, &p, e) < 0)
		return -1;
	if (like >= 0)
		return copy_in_enter(like, p.dir, p.name, e);
	if (mkdirat(p.dir, p.name, 0755) < 0)
		return builtin_io_fail(e, "copy: make directory", path);
	fd = openat(p.dir, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && file_user_give(fd) == 0)
		return fd;
	fd_close(fd);
	return builtin_io_fail(e, "copy: make directory", path);
}

/* Move the entry `name` of directory `top` (opened as fd) to dest. A directory: its content is
 * merged into dest. A missing dest is made. Another entry: into dest, if that ends in a slash
 * (into) or is a directory, else in its place. Parents are made, for the user of --for. */
static int copy_in_put(int top, const char *name, int fd, const char *dest, bool into,
		       struct err *e)
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
			       : copy_in_open_directory(dest, from, e);
		return dir < 0 ? -1 : copy_in_merge(from, dir, BUILTIN_DEPTH_MAX, e);
	}
	dir = into ? copy_in_open_directory(dest, -1, e)
		   : open(dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0 || into)
		return dir < 0 ? -1 : copy_in_move_entry(top, name, dir, own, e);
	if (file_resolve_find(dest, FILE_PLACE_PARENTS, &p, e) < 0)
		return -1;
	return copy_in_move_entry(top, name, p.dir, p.name, e);
}

/* ---- gzip: a child decompresses into a pipe */

static ssize_t copy_in_read_packed(void *arg, const uint8_t **ret, struct err *e)
{
	static uint8_t bytes[BUILTIN_IO_BUFFER];

	*ret = bytes;
	return builtin_io_read(bytes, sizeof(bytes), e);
}

static int copy_in_write_plain(void *arg, const uint8_t *bytes, size_t len, struct err *e)
{
	return io_write_all(*(int *)arg, bytes, len, e);
}

static NORETURN void copy_in_decompress(int to)
{
	struct err e = { 0 };

	_exit(inflate_gzip(&(struct inflate_io){ copy_in_read_packed, copy_in_write_plain, &to },
			   &e) < 0);
}

/* From now on the child's output is the input. Return its pid. */
static pid_t copy_in_start_inflate(struct err *e)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return builtin_io_fail(e, "copy", "pipe");
	pid = fork();
	if (pid == 0) {
		fd_close(ends[0]);
		copy_in_decompress(ends[1]);
	}
	fd_close(ends[1]);
	if (pid < 0) {
		fd_close(ends[0]);
		return builtin_io_fail(e, "copy", "fork");
	}
	builtin_io_take_plain(ends[0]);
	return pid;
}

static int copy_in_finish_inflate(pid_t pid, int rc, struct err *e)
{
	int status = 0;

	fd_close(builtin_io_take_plain(-1));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == 0 && status == 0)
		return 0;
	if (rc == 0)
		return err_set(e, ERR_INVALID, "the archive is not valid gzip");
	return -1;
}

static int copy_in_extract(int top, bool gzip, const char *max_bytes, const char *max_entries,
			   struct file_msg_end *ret, struct err *e)
{
	uint64_t bytes, entries;
	pid_t pid;

	if (units_count(max_bytes, 0, INT64_MAX, &bytes, e) < 0 ||
	    units_count(max_entries, 0, UINT32_MAX, &entries, e) < 0)
		return -1;
	if (!gzip)
		return tar_in_extract(top, bytes, entries, ret, e);
	pid = copy_in_start_inflate(e);
	if (pid < 0)
		return -1;
	return copy_in_finish_inflate(pid, tar_in_extract(top, bytes, entries, ret, e), e);
}

/* ---- owner and mode of the entry */

static int copy_in_read_owner(const char *text, struct copy_owner *ret, struct err *e)
{
	uint32_t uid = 0, gid = 0;
	char both[2 * FILE_MSG_NAME_MAX + 2];

	*ret = (struct copy_owner){ 0 };
	if (strcmp(text, "-") == 0) {
		ret->set = file_user_owner(&ret->uid, &ret->gid);
		return 0;
	}
	(void)snprintf(both, sizeof(both), strchr(text, ':') == NULL ? "%s:%s" : "%s", text, text);
	/* A user may have no group of its own name. */
	if (!file_names_owner(both, &uid, &gid) && !file_names_owner(text, &uid, &gid))
		return err_set(e, ERR_NOT_FOUND, "invalid owner: '%s'", text);
	*ret = (struct copy_owner){ .set = true, .uid = uid, .gid = gid };
	return 0;
}

static int copy_in_place(int top, char **argv, struct err *e)
{
	const char *entry = argv[2][0] == '\0' ? "." : argv[2];
	OWN_FD at = open_path(top, entry, O_PATH | O_NOFOLLOW | O_CLOEXEC, ENTRY_BENEATH);
	struct copy_owner owner;
	uint32_t mode = COPY_MODE_KEPT;

	if (at < 0)
		return err_set(e, ERR_NOT_FOUND, "the archive has no '%s'", argv[2]);
	if (copy_in_read_owner(argv[3], &owner, e) < 0 || builtin_io_mode(argv[4], &mode, e) < 0 ||
	    copy_in_prepare(at, &owner, mode, e) < 0)
		return -1;
	return copy_in_put(top, entry, at, argv[0], strchr(argv[1], '/') != NULL, e);
}

/* DEST FLAGS ENTRY OWNER|- MODE|- MAX_BYTES MAX_ENTRIES */
int copy_in(int argc, char **argv, struct err *e)
{
	char stage[] = STAGE;
	struct file_msg_end end = { 0 };
	OWN_FD top = -1;
	int rc;

	if (mkdtemp(stage) == NULL)
		return builtin_io_fail(e, "copy: make", stage);
	top = open(stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0 || fchmod(top, 0755) < 0)
		rc = builtin_io_fail(e, "copy: open", stage);
	else
		rc = copy_in_extract(top, strchr(argv[1], 'z') != NULL, argv[5], argv[6], &end, e);
	if (rc == 0)
		rc = copy_in_place(top, argv, e);
	rmtree(AT_FDCWD, stage);
	if (rc == 0 && access(stage, F_OK) == 0)
		rc = err_set(e, ERR_SYSTEM, "copy: the temporary directory cannot be removed");
	if (rc < 0)
		return -1;
	return builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_END, .end = end }, e);
}
