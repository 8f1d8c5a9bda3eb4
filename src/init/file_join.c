/* file_join.c - the built-in join: makes one file of parts that were uploaded one by one.
 *
 * All sources are opened and checked first. Their content is staged and put in place as by any
 * other write (file_put.h). Only then are the sources removed, each only if it is still the file
 * that was read. A source that is also the destination is replaced. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin.h"
#include "builtin_io.h"
#include "builtin_table.h"
#include "file_put.h"

static struct source {
	struct file_place place;
	struct stat st;
	int fd;
} sources[BUILTIN_SOURCES_MAX];
static size_t count;

static int open_source(const char *path, struct source *s, struct err *e)
{
	if (file_resolve_find(path, 0, &s->place, e) < 0)
		return -1;
	s->fd = openat(s->place.dir, s->place.name,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &s->st) < 0)
		return builtin_io_fail(e, "open", path);
	if (S_ISDIR(s->st.st_mode)) {
		errno = EISDIR;
		return builtin_io_fail(e, "open", path);
	}
	if (!S_ISREG(s->st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", path);
	/* It is removed in the end: fail now if that is not allowed. */
	if (faccessat(s->place.dir, ".", W_OK | X_OK, 0) < 0)
		return builtin_io_fail(e, "remove", path);
	return 0;
}

static int fill(struct file_stage *stage, void *arg, struct err *e)
{
	(void)arg;
	for (size_t i = 0; i < count; i++)
		if (file_stage_copy(sources[i].fd, stage->fd) < 0)
			return builtin_io_fail(e, "copy", sources[i].place.name);
	return 0;
}

static int remove_source(const struct source *s, const char *path, struct err *e)
{
	struct stat st;

	if (fstatat(s->place.dir, s->place.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_dev != s->st.st_dev || st.st_ino != s->st.st_ino)
		return 0;
	if (unlinkat(s->place.dir, s->place.name, 0) < 0 && errno != ENOENT)
		return builtin_io_fail(e, "remove", path);
	return 0;
}

/* Is the source the result? Then it is not removed. */
static bool is_result(const struct source *s, const struct file_place *result)
{
	struct stat a, b;

	return strcmp(s->place.name, result->name) == 0 && fstat(s->place.dir, &a) == 0 &&
	       fstat(result->dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int file_join(int argc, char **argv, struct err *e)
{
	static const struct file_xattr none;
	struct file_put r = file_put_for_user(argv[0]);
	FILE_PLACE p = FILE_PLACE_NONE;
	int existed;

	r.parents = true;
	r.meta = &none;
	for (int i = 1; i < argc; i++)
		if (open_source(argv[i], &sources[count++], e) < 0)
			return -1;
	existed = file_put(&r, fill, NULL, &p, e);
	if (existed < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (!is_result(&sources[i], &p) && remove_source(&sources[i], argv[i + 1], e) < 0)
			return -1;
	return file_put_send_entry(&r, &p, existed, e);
}
