/* serve_cache.c - the user and the folder of cordon-cache. Whatever is wrong with them, the server
 * starts: packages are then fetched without a cache, and the log says why. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "serve.h"

static bool is_empty(int fd)
{
	int again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	unsigned n = 0;

	if (d == NULL) {
		if (again >= 0)
			fd_close(again);
		return false;
	}
	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n <= 2; /* . and .. */
}

/* The state folder belongs to cordond, which could put another folder here: only an empty one is
 * given to the user of the cache. */
static int take_folder(const struct serve *s, const char *path, int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "%s", path);
	if (st.st_uid == s->cache_uid && (st.st_mode & 077) == 0)
		return 0;
	if (!s->root || !is_empty(fd))
		return err_set(e, ERR_DENIED,
			       "%s must belong to user %u and have mode 0700: remove it", path,
			       s->cache_uid);
	if (fchown(fd, s->cache_uid, s->cache_gid) < 0 || fchmod(fd, 0700) < 0)
		return err_sys(e, "%s", path);
	return 0;
}

static int open_folder(struct serve *s, struct err *e)
{
	char path[CONFIG_PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/packages", s->config.state_dir);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", path);
	OWN_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	if (take_folder(s, path, fd, e) < 0)
		return -1;
	s->cache_fd = TAKE_FD(fd);
	return 0;
}

void serve_cache(struct serve *s)
{
	struct err e;

	s->cache_fd = -1;
	if (s->config.package_cache_size > 0 && open_folder(s, &e) < 0)
		log_warn("packages are not cached", "error=%s", e.msg);
}
