/* open_path.c - theory of operation
 *
 * The walk holds one descriptor, `at`, the directory reached so far, and the remaining names. Each
 * name is opened with O_PATH | O_NOFOLLOW, so a link is never followed by the kernel: its target is
 * put in front of the remaining names, as the rules allow. An entry that another process replaces
 * is seen either as before or as after, never as an unchecked link. */
#include "cell/init/files/open_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "lib/base/kernel.h"
#include "lib/base/own.h"
#include "lib/base/str.h"

#define LINKS_MAX 40 /* as the kernel has it */

struct path_walk {
	int at;		     /* owned */
	char rest[PATH_MAX]; /* names left */
	uint64_t flags, resolve;
	unsigned links;
};

static int open_path_fail(int error)
{
	errno = error;
	return -1;
}

static bool open_path_is_beneath(const struct path_walk *w)
{
	return (w->resolve & RESOLVE_BENEATH) != 0;
}

static void open_path_go_to(struct path_walk *w, int fd)
{
	fd_close(w->at);
	w->at = fd;
}

static int open_path_go_to_root(struct path_walk *w)
{
	int fd = open_path_is_beneath(w) ? open_path_fail(EXDEV)
					 : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	open_path_go_to(w, fd);
	return 0;
}

/* The links of /proc that lead to objects and not to names have targets that no other link of /proc
 * has: absolute paths, and words such as "pipe:[1]". Nothing else can make a link there. */
static bool open_path_is_magic(int link, const char *target)
{
	struct statfs fs;

	return fstatfs(link, &fs) < 0 ||
	       (fs.f_type == PROC_SUPER_MAGIC && (*target == '/' || strchr(target, ':') != NULL));
}

/* Put the target of a link in front of the remaining names. slash: one came after its name. */
static int open_path_follow(struct path_walk *w, int link, bool slash)
{
	char target[PATH_MAX], both[2 * PATH_MAX];
	ssize_t n;

	if (++w->links > LINKS_MAX || (w->resolve & RESOLVE_NO_SYMLINKS) != 0)
		return open_path_fail(ELOOP);
	n = readlinkat(link, "", target, sizeof(target) - 1);
	if (n <= 0)
		return n == 0 ? open_path_fail(ENOENT) : -1;
	target[n] = '\0';
	if ((w->resolve & RESOLVE_NO_MAGICLINKS) != 0 && open_path_is_magic(link, target))
		return open_path_fail(ELOOP);
	n = snprintf(both, sizeof(both), "%s%s%s", target, slash ? "/" : "", w->rest);
	if (n >= (ssize_t)sizeof(w->rest))
		return open_path_fail(ENAMETOOLONG);
	memcpy(w->rest, both, (size_t)n + 1);
	return *target == '/' ? open_path_go_to_root(w) : 0;
}

/* Take the next name off the rest. "" at the end. slash: more than the name was there. */
static int open_path_take_name(struct path_walk *w, char *ret, bool *ret_slash)
{
	size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/"), end = skip + n;

	if (n > NAME_MAX)
		return open_path_fail(ENAMETOOLONG);
	memcpy(ret, w->rest + skip, n);
	ret[n] = '\0';
	*ret_slash = w->rest[end] == '/';
	end += strspn(w->rest + end, "/");
	memmove(w->rest, w->rest + end, strlen(w->rest + end) + 1);
	return 0;
}

/* Open the last name as the caller wants it. fd: the same, by O_PATH. */
static int open_path_open_last(const struct path_walk *w, int fd, const char *name,
			       const struct stat *st, bool slash)
{
	bool wants_dir = slash || (w->flags & O_DIRECTORY) != 0;

	if (wants_dir && !S_ISDIR(st->st_mode))
		return open_path_fail(ENOTDIR);
	if ((w->flags & O_PATH) != 0)
		return fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return openat(w->at, name, (int)w->flags | O_NOFOLLOW);
}

static int open_path_step_up(struct path_walk *w)
{
	int fd = open_path_is_beneath(w) ? open_path_fail(EXDEV)
					 : openat(w->at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	open_path_go_to(w, fd);
	return 0;
}

/* One name. *ret_fd is set, and the walk ends, with the last one. */
static int open_path_step(struct path_walk *w, int *ret_fd)
{
	char name[NAME_MAX + 1];
	bool slash;
	struct stat st;

	if (open_path_take_name(w, name, &slash) < 0)
		return -1;
	if (strcmp(name, "..") == 0 && open_path_step_up(w) < 0)
		return -1;
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		if (*w->rest != '\0')
			return 0;
		*ret_fd = (w->flags & O_PATH) != 0 ? fcntl(w->at, F_DUPFD_CLOEXEC, 3)
						   : openat(w->at, ".", (int)w->flags);
		return *ret_fd < 0 ? -1 : 0;
	}
	OWN_FD fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (S_ISLNK(st.st_mode) && (*w->rest != '\0' || slash || (w->flags & O_NOFOLLOW) == 0))
		return open_path_follow(w, fd, slash);
	if (*w->rest == '\0') {
		*ret_fd = open_path_open_last(w, fd, name, &st, slash);
		return *ret_fd < 0 ? -1 : 0;
	}
	open_path_go_to(w, TAKE_FD(fd));
	return 0;
}

int open_path_walk(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct path_walk w = { .flags = flags, .resolve = resolve };
	int fd = -1, result = 0, error;

	if (*path == '\0' || strlen(path) >= sizeof(w.rest))
		return open_path_fail(*path == '\0' ? ENOENT : ENAMETOOLONG);
	str_copy(w.rest, path);
	w.at = dir_fd == AT_FDCWD ? open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)
				  : fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	if (w.at < 0)
		return -1;
	if (*path == '/')
		result = open_path_go_to_root(&w);
	while (result == 0 && fd < 0)
		result = open_path_step(&w, &fd);
	error = errno;
	fd_close(w.at);
	errno = error;
	return fd;
}

int open_path(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	int fd = kernel_openat2(dir_fd, path, flags, resolve);

	return fd >= 0 || errno != ENOSYS ? fd : open_path_walk(dir_fd, path, flags, resolve);
}
