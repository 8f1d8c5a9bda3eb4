/* serve_own_folder.c - the folders of cordon-cache and cordon-notary. If one cannot be used, the
 * server starts without that program, and the log says why.
 *
 * Called by serve_prepare(), as the user that starts the server, before any program runs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/serve/serve.h"
#include "lib/base/log.h"
#include "lib/base/own.h"

struct own_folder {
	char path[CONFIG_PATH_MAX + 16];
	uid_t uid;
	gid_t gid;
	const char *remedy; /* where it belongs to another user */
};

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
 * given to the program's user. */
static int take_folder(const struct serve *s, const struct own_folder *f, int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "%s", f->path);
	if (st.st_uid == f->uid && (st.st_mode & 077) == 0)
		return 0;
	if (!s->root || !is_empty(fd))
		return err_set(e, ERR_DENIED, "%s must belong to user %u and have mode 0700: %s",
			       f->path, f->uid, f->remedy);
	if (fchown(fd, f->uid, f->gid) < 0 || fchmod(fd, 0700) < 0)
		return err_sys(e, "%s", f->path);
	return 0;
}

static int open_folder(const struct serve *s, const struct own_folder *f, int *ret_fd,
		       struct err *e)
{
	if (mkdir(f->path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", f->path);
	OWN_FD fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "open %s", f->path);
	if (take_folder(s, f, fd, e) < 0)
		return -1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Open the folder of cordon-cache. It may be missing: then the log says why. */
static void serve_cache(struct serve *s)
{
	struct own_folder f = { .uid = s->cache_uid, .gid = s->cache_gid, .remedy = "remove it" };
	struct err e;

	s->cache_fd = -1;
	(void)snprintf(f.path, sizeof(f.path), "%s/packages", s->config.state_dir);
	if (s->config.package_cache_size > 0 && open_folder(s, &f, &s->cache_fd, &e) < 0)
		log_warn("packages are not cached", "error=%s", e.msg);
}

/* ---- cordon-notary
 *
 * A cordond in an attacker's hands must not move the folder with the keys away: the next
 * cordon-notary would begin with a new key and without memory. So where root starts the server, the
 * folder is beside the state folder, which belongs to cordond's user, and not in it. */

/* Could cordond's user rename what is in that folder? */
static bool may_rename_in(const struct serve *s, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return true;
	if (st.st_uid == s->uid)
		return true;
	if ((st.st_mode & S_ISVTX) != 0)
		return false;
	return (st.st_mode & S_IWOTH) != 0 || ((st.st_mode & S_IWGRP) != 0 && st.st_gid == s->gid);
}

/* The folder, or one above it. */
static bool may_be_moved(const struct serve *s, const char *path)
{
	char real[PATH_MAX], *slash;

	if (realpath(path, real) == NULL)
		return true;
	while ((slash = strrchr(real, '/')) != NULL && real[1] != '\0') {
		slash[slash == real ? 1 : 0] = '\0';
		if (may_rename_in(s, real))
			return true;
	}
	return false;
}

/* Earlier servers had it in the state folder. */
static int move_notary(const struct serve *s, const char *path, struct err *e)
{
	char before[CONFIG_PATH_MAX + 16];
	struct stat st;

	(void)snprintf(before, sizeof(before), "%s/notary", s->config.state_dir);
	if (lstat(path, &st) == 0 || lstat(before, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    st.st_uid != s->notary_uid)
		return 0;
	if (rename(before, path) < 0)
		return err_sys(e, "move %s to %s", before, path);
	log_info("the folder of cordon-notary is beside the state folder now", "folder=%s", path);
	return 0;
}

/* Open the folder of cordon-notary. It has keys, so a wrong one is never removed. */
static void serve_notary(struct serve *s)
{
	struct own_folder f = { .uid = s->notary_uid,
				.gid = s->notary_gid,
				.remedy = "chown it with its files" };
	const char *dir = s->config.state_dir, *set = s->config.notary_dir;
	bool is_set = set[0] != '\0';
	size_t n = strlen(dir);
	struct err e;
	int done = 0;

	s->notary_fd = -1;
	while (n > 1 && dir[n - 1] == '/')
		n--;
	if (is_set)
		(void)snprintf(f.path, sizeof(f.path), "%s", set);
	else
		(void)snprintf(f.path, sizeof(f.path), "%.*s%s", (int)n, dir,
			       s->root ? "-notary" : "/notary");
	if (s->root && !is_set)
		done = move_notary(s, f.path, &e);
	if (done < 0 || open_folder(s, &f, &s->notary_fd, &e) < 0) {
		log_error("checkpoints of the audit log are not signed", "error=%s", e.msg);
		return;
	}
	if (s->root && may_be_moved(s, f.path))
		log_warn("the user of cordond could move the folder of cordon-notary, and so have "
			 "it begin with a new key: set notary_dir to a folder below others of root",
			 "folder=%s", f.path);
}

void serve_own_folders(struct serve *s)
{
	serve_cache(s);
	serve_notary(s);
}
