/* file_change.c - the built-ins stat, mkdir and move. Called by builtin.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_entry.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_stage.h"
#include "cell/init/files/file_user.h"
#include "cell/init/files/file_xattr.h"

int file_change_stat(int argc, char **argv, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	OWN_FD fd = -1;

	if (argc == 2 && strcmp(argv[1], "nofollow") != 0)
		return err_set(e, ERR_INVALID, "stat: unknown option: %s", argv[1]);
	fd = file_resolve_open(argv[0], argc < 2, real, e);
	return fd < 0 ? -1 : file_entry_send(fd, real, argv[0], 0, e);
}

static int file_change_send_entry_at(const struct file_place *p, const char *requested,
				     struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	OWN_FD fd = file_resolve_open_at(p, real, e);

	return fd < 0 ? -1 : file_entry_send(fd, real, requested, 0, e);
}

struct directory {
	uint32_t mode; /* UINT32_MAX: the default */
	bool parents, exclusive;
};

static int file_change_parse_directory(char **argv, struct directory *ret, struct err *e)
{
	*ret = (struct directory){ .mode = UINT32_MAX };
	if (builtin_io_mode(argv[1], &ret->mode, e) < 0)
		return -1;
	for (const char *p = strcmp(argv[2], "-") == 0 ? "" : argv[2]; *p != '\0'; p++) {
		if (*p != 'p' && *p != 'x')
			return err_set(e, ERR_INVALID, "mkdir: unknown flag in '%s'", argv[2]);
		ret->parents |= *p == 'p';
		ret->exclusive |= *p == 'x';
	}
	return 0;
}

/* For a new directory. */
static int file_change_set_owner_and_mode(const struct file_place *p, uint32_t mode,
					  const char *path, struct err *e)
{
	OWN_FD fd = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || file_user_give(fd) < 0)
		return builtin_io_fail(e, "change owner", path);
	if (mode != UINT32_MAX && fchmod(fd, mode) < 0)
		return builtin_io_fail(e, "change mode", path);
	return 0;
}

/* mkdir of a directory that exists: a success, unless it had to be new. */
static int file_change_send_existing(const char *path, bool exclusive, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	struct stat st;
	OWN_FD fd = -1;

	errno = EEXIST;
	if (exclusive)
		return builtin_io_fail(e, "make directory", path);
	fd = file_resolve_open(path, true, real, e);
	if (fd < 0)
		return -1;
	errno = EEXIST;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return builtin_io_fail(e, "make directory", path);
	return file_entry_send(fd, real, path, FILE_MSG_EXISTED, e);
}

int file_change_mkdir(int argc, char **argv, struct err *e)
{
	FILE_PLACE p = FILE_PLACE_NONE;
	struct directory d;

	if (file_change_parse_directory(argv, &d, e) < 0)
		return -1;
	if (file_user_is_set() && strcmp(argv[0], "/") == 0)
		return file_change_send_existing(argv[0], d.exclusive, e);
	if (file_resolve_find(argv[0], d.parents ? FILE_PLACE_PARENTS : 0, &p, e) < 0) {
		file_resolve_unmake();
		return -1;
	}
	if (mkdirat(p.dir, p.name, d.mode == UINT32_MAX ? 0777 : 0700) < 0) {
		if (errno == EEXIST)
			return file_change_send_existing(argv[0], d.exclusive, e);
		(void)builtin_io_fail(e, "make directory", argv[0]);
		file_resolve_unmake();
		return -1;
	}
	if ((d.mode != UINT32_MAX || file_user_is_set()) &&
	    file_change_set_owner_and_mode(&p, d.mode, argv[0], e) < 0) {
		(void)unlinkat(p.dir, p.name, AT_REMOVEDIR);
		file_resolve_unmake();
		return -1;
	}
	return file_change_send_entry_at(&p, argv[0], e);
}

static int file_change_copy_metadata(int from, int to, const char *path, struct err *e)
{
	static struct file_xattr x;
	char proc_path[32];

	(void)snprintf(proc_path, sizeof(proc_path), "/proc/self/fd/%d", from);
	file_xattr_read(proc_path, true, &x);
	return x.len == 0 ? 0 : file_xattr_replace(to, &x, path, e);
}

/* Between two mounts, as /tmp and a home may be in a cell: the copy appears when it is complete,
 * then the old file is removed. */
static int file_change_move_file(const struct file_place *from, const struct file_place *to,
				 const char *path, struct err *e)
{
	FILE_STAGE stage = FILE_STAGE_NONE;
	OWN_FD old = openat(from->dir, from->name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct timespec times[2];
	struct stat st;

	if (old < 0 || fstat(old, &st) < 0)
		return builtin_io_fail(e, "open", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_UNSUPPORTED,
			       "only regular files can be moved between mounts: %s", path);
	if (file_stage_open(to->dir, &stage) < 0 || file_stage_copy(old, stage.fd) < 0)
		return builtin_io_fail(e, "copy", path);
	if (file_change_copy_metadata(old, stage.fd, path, e) < 0)
		return -1;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (fchown(stage.fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
		return builtin_io_fail(e, "change owner", path);
	if (fchmod(stage.fd, st.st_mode & 0777) < 0 || futimens(stage.fd, times) < 0)
		return builtin_io_fail(e, "change mode", path);
	if (file_stage_link(&stage, to->dir, to->name, true) < 0)
		return builtin_io_fail(e, "move", path);
	if (unlinkat(from->dir, from->name, 0) < 0)
		return builtin_io_fail(e, "remove", path);
	return 0;
}

static int file_change_rename(const struct file_place *from, const struct file_place *to,
			      const char *path, struct err *e)
{
	if (renameat(from->dir, from->name, to->dir, to->name) == 0)
		return 0;
	return errno == EXDEV ? file_change_move_file(from, to, path, e)
			      : builtin_io_fail(e, "move", path);
}

int file_change_move(int argc, char **argv, struct err *e)
{
	FILE_PLACE from = FILE_PLACE_NONE;
	FILE_PLACE to = FILE_PLACE_NONE;
	bool parents = argc > 2 && strcmp(argv[2], "p") == 0;

	if (argc > 2 && !parents && strcmp(argv[2], "-") != 0)
		return err_set(e, ERR_INVALID, "move: unknown flag in '%s'", argv[2]);
	if (file_resolve_find(argv[0], 0, &from, e) < 0)
		return -1;
	if (file_resolve_find(argv[1], parents ? FILE_PLACE_PARENTS : 0, &to, e) < 0 ||
	    file_change_rename(&from, &to, argv[0], e) < 0) {
		file_resolve_unmake();
		return -1;
	}
	return file_change_send_entry_at(&to, argv[1], e);
}
