/* content_entry.c - the operations on entries of a volume: list, stat, make a directory, change
 * owner and mode, remove; and which operation a request is. See content.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "tree_remove.h"

int content_stat(const struct content *c, struct err *e)
{
	OWN_FD fd = content_open(c, c->r->path, O_PATH | O_NOFOLLOW);

	if (fd < 0)
		return content_fail(e, c->r->path);
	return content_put_entry(c, fd, c->r->path) < 0 ? content_fail(e, c->r->path) : 0;
}

/* ---- list */

static int list_below(const struct content *c, int dir, const char *path, unsigned depth,
		      uint64_t *count, struct err *e);

static int list_one(const struct content *c, int dir, const char *name, const char *in,
		    unsigned depth, uint64_t *count, struct err *e)
{
	OWN_FD fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	OWN_FD below = -1;
	char path[CONTENT_PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", in[1] == '\0' ? "" : in, name) >=
	    (int)sizeof(path))
		return 0; /* no request could name it */
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : content_fail(e, path);
	if (++*count > c->r->entries_max)
		return err_set(e, ERR_LIMIT, "more than %llu entries: list with a smaller depth",
			       (unsigned long long)c->r->entries_max);
	if (content_put_entry(c, fd, path) < 0)
		return content_fail(e, path);
	if (!S_ISDIR(st.st_mode) || depth <= 1)
		return 0;
	below = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (below < 0)
		return errno == ENOENT ? 0 : content_fail(e, path);
	return list_below(c, TAKE_FD(below), path, depth - 1, count, e);
}

/* Takes the descriptor over. */
static int list_below(const struct content *c, int dir, const char *path, unsigned depth,
		      uint64_t *count, struct err *e)
{
	DIR *d = fdopendir(dir);
	int rc = 0;

	if (d == NULL) {
		fd_close(dir);
		return content_fail(e, path);
	}
	for (struct dirent *entry; rc == 0 && (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = list_one(c, dirfd(d), entry->d_name, path, depth, count, e);
	(void)closedir(d);
	return rc;
}

int content_list(const struct content *c, struct err *e)
{
	int fd = content_open(c, c->r->path, O_RDONLY | O_DIRECTORY);
	uint64_t count = 0;

	if (fd < 0)
		return content_fail(e, c->r->path);
	return list_below(c, fd, c->r->path, c->r->depth, &count, e);
}

/* ---- make a directory */

static bool forced(const struct content *c)
{
	return (c->r->flags & STORAGE_CONTENT_FORCE) != 0;
}

/* There is something of that name: with force a directory is a success, and is not changed. */
static int existing(const struct content *c, struct err *e)
{
	OWN_FD fd = forced(c) ? content_open(c, c->r->path, O_PATH | O_DIRECTORY) : -1;

	if (fd >= 0)
		return content_put_entry(c, fd, c->r->path) < 0 ? content_fail(e, c->r->path) : 0;
	errno = EEXIST;
	return content_fail(e, c->r->path);
}

int content_make(const struct content *c, struct err *e)
{
	mode_t mode = c->r->mode == STORAGE_CONTENT_UNSET ? 0755 : c->r->mode;
	CONTENT_PLACE p = CONTENT_PLACE_NONE;
	OWN_FD fd = -1;

	if (c->r->path[1] == '\0')
		return existing(c, e);
	if (content_find(c, c->r->path, forced(c), &p, e) < 0)
		return -1;
	if (mkdirat(p.dir, p.name, 0700) < 0)
		return errno == EEXIST ? existing(c, e) : content_fail(e, c->r->path);
	fd = openat(p.dir, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || content_give(c, fd, mode) < 0 || content_put_entry(c, fd, c->r->path) < 0)
		return content_fail(e, c->r->path);
	return 0;
}

/* ---- change */

/* A file or directory, opened by what was seen: a pipe or a device is never opened. */
static int open_plain(const struct content *c, struct err *e)
{
	OWN_FD seen = content_open(c, c->r->path, O_PATH);
	OWN_FD fd = -1;
	struct stat st, now;

	if (seen < 0 || fstat(seen, &st) < 0)
		return content_fail(e, c->r->path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "%.100s: neither a file nor a directory",
			       c->r->path);
	fd = content_open(c, c->r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &now) < 0)
		return content_fail(e, c->r->path);
	if (now.st_dev != st.st_dev || now.st_ino != st.st_ino)
		return err_set(e, ERR_CONFLICT, "%.100s: was replaced meanwhile", c->r->path);
	return TAKE_FD(fd);
}

int content_change(const struct content *c, struct err *e)
{
	uint32_t uid = c->r->uid, gid = c->r->gid;
	OWN_FD fd = open_plain(c, e);

	if (fd < 0)
		return -1;
	if (((uid & gid) != STORAGE_CONTENT_UNSET && content_chown(c, fd, uid, gid) < 0) ||
	    (c->r->mode != STORAGE_CONTENT_UNSET && fchmod(fd, c->r->mode) < 0) ||
	    content_put_entry(c, fd, c->r->path) < 0)
		return content_fail(e, c->r->path);
	return 0;
}

/* ---- remove */

/* A directory is moved away first: for everyone else it is gone at once and as a whole. */
int content_remove(const struct content *c, struct err *e)
{
	CONTENT_PLACE p = CONTENT_PLACE_NONE;
	OWN_FD new = -1;
	char name[32];

	if (content_find(c, c->r->path, false, &p, e) < 0)
		return -1;
	if (unlinkat(p.dir, p.name, 0) == 0)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || (new = content_new_open(c->volume)) < 0)
		return content_fail(e, c->r->path);
	content_new_name("gone", name);
	if (renameat(p.dir, p.name, new, name) < 0)
		return content_fail(e, c->r->path);
	/* What cannot be removed now is removed by the next operation that opens the directory. */
	IGNORED(tree_remove(new, name, e), "see above");
	return 0;
}

void content_run(struct content *c)
{
	static int (*const ops[])(const struct content *c, struct err *e) = {
		[STORAGE_CONTENT_LIST] = content_list,
		[STORAGE_CONTENT_STAT] = content_stat,
		[STORAGE_CONTENT_MAKE] = content_make,
		[STORAGE_CONTENT_CHANGE] = content_change,
		[STORAGE_CONTENT_REMOVE] = content_remove,
		[STORAGE_CONTENT_READ] = content_read,
		[STORAGE_CONTENT_WRITE] = content_write,
	};
	struct content_record last = { .kind = CONTENT_END };
	struct err e = { 0 };

	if (ops[c->r->what](c, &e) < 0)
		last = (struct content_record){ .kind = CONTENT_ERROR, .error = e };
	IGNORED(content_put(c, &last), "the reader is gone, which ends the operation, too");
}
