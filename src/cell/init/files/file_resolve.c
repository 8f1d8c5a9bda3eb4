/* file_resolve.c - theory of operation
 *
 * A check of a path's text is not enough: between check and use a process of the cell may replace a
 * component by a link. So the path is opened first. Then the kernel says where the descriptor is
 * (/proc/self/fd), and this path is checked. Then names are used below the descriptor, and links at
 * them are not followed. A directory may still be moved between check and use, but a process that
 * can move it out of a tree could write there itself. */
#include "cell/init/files/file_resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/init/files/builtin_io.h"
#include "cell/init/files/file_user.h"
#include "cell/init/files/open_path.h"
#include "lib/base/kernel.h"

#define LINKS_MAX 40
#define PATH_FLAGS (O_PATH | O_CLOEXEC)

static const char *within;  /* borrowed from argv. NULL: no restriction */
static const char *without; /* the same */

/* The new directories: a path below an existing one. */
static struct {
	int dir; /* if chain is not "" */
	char chain[PATH_MAX];
} made;

static int file_resolve_check_list(const char *option, const char *list, struct err *e)
{
	for (const char *p = list;; p += strcspn(p, ":") + 1) {
		if (*p != '/')
			return err_set(e, ERR_INVALID, "%s: '%s' is not absolute", option, p);
		if (p[strcspn(p, ":")] == '\0')
			return 0;
	}
}

int file_resolve_restrict(const char *list, struct err *e)
{
	within = list;
	return file_resolve_check_list("--within", list, e);
}

int file_resolve_forbid(const char *list, struct err *e)
{
	without = list;
	return file_resolve_check_list("--without", list, e);
}

/* Is the path at or below one of the list? */
static bool file_resolve_is_in(const char *list, const char *real)
{
	for (const char *p = list;; p++) {
		size_t n = strcspn(p, ":");
		const char *next = p + n;

		while (n > 0 && p[n - 1] == '/')
			n--;
		if (strncmp(real, p, n) == 0 && real[0] == '/' &&
		    (real[n] == '/' || (real[n] == '\0' && n > 0)))
			return true;
		if (*next == '\0')
			return false;
		p = next;
	}
}

static bool file_resolve_allowed(const char *real)
{
	return (within == NULL || file_resolve_is_in(within, real)) &&
	       (without == NULL || !file_resolve_is_in(without, real));
}

static int file_resolve_real_path(int fd, char *ret, struct err *e)
{
	char link[32];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, FILE_MSG_PATH_MAX);
	if (n < 0)
		return builtin_io_fail(e, "find the path of", link);
	if (n >= (ssize_t)FILE_MSG_PATH_MAX)
		return err_set(e, ERR_LIMIT, "real path of 4096 bytes or more");
	ret[n] = '\0';
	return 0;
}

bool file_resolve_allows(int dir)
{
	char real[FILE_MSG_PATH_MAX];
	struct err e;

	return without == NULL ||
	       (file_resolve_real_path(dir, real, &e) == 0 && file_resolve_allowed(real));
}

static int file_resolve_deny(const char *path, struct err *e)
{
	return err_set(e, ERR_DENIED, "outside of the allowed directories: %s", path);
}

/* May entries of this directory be changed? An allowed directory itself is an entry of its parent,
 * and the parent is not allowed. So it cannot be removed or replaced. */
static int file_resolve_check_entries(int dir, const char *path, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];

	if (within == NULL)
		return 0;
	if (file_resolve_real_path(dir, real, e) < 0)
		return -1;
	return file_resolve_allowed(real) ? 0 : file_resolve_deny(path, e);
}

static int file_resolve_step_into(int dir, const char *name, uint64_t more)
{
	return open_path(dir, name, PATH_FLAGS | O_DIRECTORY | more, RESOLVE_NO_MAGICLINKS);
}

static void file_resolve_remember_made(int dir, const char *name)
{
	size_t n = strlen(made.chain), len = strlen(name);

	if (n == 0)
		made.dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (n + len + 2 > sizeof(made.chain))
		return; /* too long, it stays, if it has to be removed */
	if (n > 0)
		made.chain[n++] = '/';
	memcpy(made.chain + n, name, len + 1);
}

static int file_resolve_make_and_enter(int dir, const char *name, const char *path, struct err *e)
{
	bool is_new;
	int fd;

	if (file_resolve_check_entries(dir, path, e) < 0)
		return -1;
	is_new = mkdirat(dir, name, 0777) == 0;
	if (is_new)
		file_resolve_remember_made(dir, name);
	else if (errno != EEXIST)
		return builtin_io_fail(e, "make directory", path);
	/* Not followed: another process may have made a link there first. */
	fd = file_resolve_step_into(dir, name, O_NOFOLLOW);
	if (fd < 0)
		return builtin_io_fail(e, "enter directory", path);
	if (is_new && file_user_give(fd) < 0) {
		(void)builtin_io_fail(e, "change owner", path);
		fd_close(fd);
		return -1;
	}
	return fd;
}

/* Open a directory component by component, and make missing ones. Changes dirs. */
static int file_resolve_walk_making(int base, char *dirs, const char *path, struct err *e)
{
	OWN_FD at = file_resolve_step_into(base, *dirs == '/' ? "/" : ".", 0);

	if (at < 0)
		return builtin_io_fail(e, "enter directory", path);
	while (*dirs != '\0') {
		size_t n = strcspn(dirs, "/");
		bool last = dirs[n] == '\0';
		int next;

		dirs[n] = '\0';
		if (n > 0) {
			next = file_resolve_step_into(at, dirs, 0);
			if (next < 0 && errno != ENOENT)
				return builtin_io_fail(e, "enter directory", path);
			if (next < 0)
				next = file_resolve_make_and_enter(at, dirs, path, e);
			if (next < 0)
				return -1;
			fd_close(at);
			at = next;
		}
		dirs += n + !last;
	}
	return TAKE_FD(at);
}

static int file_resolve_open_parent(int base, char *dirs, unsigned flags, const char *path,
				    struct err *e)
{
	int fd;

	if ((flags & FILE_PLACE_PARENTS) != 0)
		return file_resolve_walk_making(base, dirs, path, e);
	fd = file_resolve_step_into(base, *dirs == '\0' ? "." : dirs, 0);
	return fd < 0 ? builtin_io_fail(e, "enter directory", path) : fd;
}

/* Split off the last component. Dirs keeps the rest, and "/" for the root. */
static int file_resolve_cut_name(char *dirs, char *ret_name, const char *path, struct err *e)
{
	size_t n = strlen(dirs), begin;

	while (n > 0 && dirs[n - 1] == '/')
		dirs[--n] = '\0';
	for (begin = n; begin > 0 && dirs[begin - 1] != '/';)
		begin--;
	if (n == begin || strcmp(dirs + begin, ".") == 0 || strcmp(dirs + begin, "..") == 0)
		return err_set(e, ERR_INVALID, "not a name in a directory: '%s'", path);
	if (n - begin > NAME_MAX)
		return err_set(e, ERR_LIMIT, "a name of over 255 bytes");
	memcpy(ret_name, dirs + begin, n - begin + 1);
	dirs[begin] = '\0';
	return 0;
}

int file_resolve_find(const char *path, unsigned flags, struct file_place *ret, struct err *e)
{
	char dirs[PATH_MAX], target[PATH_MAX];
	FILE_PLACE p = FILE_PLACE_NONE;
	OWN_FD base = AT_FDCWD;
	ssize_t n;

	if (strlen(path) >= sizeof(dirs))
		return err_set(e, ERR_LIMIT, "a path of 4096 bytes or more");
	memcpy(dirs, path, strlen(path) + 1);
	for (int links = 0; links <= LINKS_MAX; links++) { /* the last round finds the end */
		if (file_resolve_cut_name(dirs, p.name, path, e) < 0)
			return -1;
		p.dir = file_resolve_open_parent(base, dirs, flags, path, e);
		if (p.dir < 0)
			return -1;
		n = (flags & FILE_PLACE_FOLLOW) == 0
			    ? -1
			    : readlinkat(p.dir, p.name, target, sizeof(target) - 1);
		if (n < 0) {
			if (file_resolve_check_entries(p.dir, path, e) < 0)
				return -1;
			*ret = p;
			p.dir = -1;
			return 0;
		}
		target[n] = '\0';
		memcpy(dirs, target, (size_t)n + 1);
		own_close_(&base);
		base = TAKE_FD(p.dir);
	}
	errno = ELOOP;
	return builtin_io_fail(e, "follow link", path);
}

void file_resolve_release(struct file_place *p)
{
	own_close_(&p->dir);
	p->dir = -1;
}

void file_resolve_unmake(void)
{
	if (*made.chain == '\0')
		return;
	for (;;) {
		char *slash = strrchr(made.chain, '/');
		const char *name = slash == NULL ? made.chain : slash + 1;
		OWN_FD parent = -1;

		if (slash != NULL)
			*slash = '\0';
		parent = open_path(made.dir, slash == NULL ? "." : made.chain,
				   PATH_FLAGS | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		if (parent >= 0)
			(void)unlinkat(parent, name, AT_REMOVEDIR);
		if (slash == NULL)
			break;
	}
	own_close_(&made.dir);
	made.chain[0] = '\0';
}

static int file_resolve_check_pinned(int pinned, const char *path, char *ret_real, struct err *e)
{
	OWN_FD fd = pinned;

	if (file_resolve_real_path(fd, ret_real, e) < 0)
		return -1;
	return file_resolve_allowed(ret_real) ? TAKE_FD(fd) : file_resolve_deny(path, e);
}

int file_resolve_open(const char *path, bool follow, char *ret_real, struct err *e)
{
	int fd = open_path(AT_FDCWD, path, PATH_FLAGS | (follow ? 0 : O_NOFOLLOW),
			   RESOLVE_NO_MAGICLINKS);

	if (fd < 0)
		return builtin_io_fail(e, "open", path);
	return file_resolve_check_pinned(fd, path, ret_real, e);
}

int file_resolve_open_at(const struct file_place *p, char *ret_real, struct err *e)
{
	int fd = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return builtin_io_fail(e, "open", p->name);
	return file_resolve_check_pinned(fd, p->name, ret_real, e);
}

int file_resolve_follow(int dir, const char *link, char *ret_real)
{
	int fd = open_path(dir, link, PATH_FLAGS, RESOLVE_NO_MAGICLINKS);
	struct err ignored;

	return fd < 0 ? -1 : file_resolve_check_pinned(fd, link, ret_real, &ignored);
}

int file_resolve_reopen(int pinned, int flags)
{
	char link[32];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", pinned);
	return open(link, flags | O_CLOEXEC | O_NOCTTY);
}
