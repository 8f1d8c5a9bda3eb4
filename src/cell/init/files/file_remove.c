/* file_remove.c - the built-in remove.
 *
 * Depth first, with a stack of open directories. Each entry is removed by name in an open
 * directory, and no link is followed: whatever processes of the cell do at the same time, only
 * entries from below the top are removed. A tree may be deeper than the stack: then a directory at
 * the end of the stack is moved up to the top, and the top is listed again until it is empty. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_resolve.h"
#include "lib/base/str.h"

struct removal_level {
	DIR *dir;
	bool worked;		 /* something was removed in this pass: there may be another */
	char name[NAME_MAX + 1]; /* in the level above */
};

static struct removal_level stack[BUILTIN_DEPTH_MAX];
static unsigned used;

static int file_remove_push(int in, const char *name)
{
	struct removal_level *l = &stack[used];
	int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	l->dir = fd < 0 ? NULL : fdopendir(fd);
	if (l->dir == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return -1;
	}
	l->worked = false;
	str_copy(l->name, name);
	used++;
	return 0;
}

/* The stack is full: moves the directory to the top. */
static int file_remove_lift(int in, const char *name)
{
	static unsigned number;
	char lifted[32];

	for (;;) {
		(void)snprintf(lifted, sizeof(lifted), ".cordon-rm-%u", ++number);
		/* An empty directory of that name is replaced, as it would be removed. */
		if (renameat(in, name, dirfd(stack[0].dir), lifted) == 0)
			break;
		if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
			return -1;
	}
	stack[0].worked = true;
	return 0;
}

/* Remove an entry. A directory with entries is pushed on the stack. */
static int file_remove_one_entry(struct removal_level *l, const char *name, uint64_t *count)
{
	int in = dirfd(l->dir);

	if (unlinkat(in, name, 0) == 0 ||
	    (errno == EISDIR && unlinkat(in, name, AT_REMOVEDIR) == 0)) {
		l->worked = true;
		(*count)++;
		return 0;
	}
	if (errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -1;
	l->worked = true;
	return used < COUNT(stack) ? file_remove_push(in, name) : file_remove_lift(in, name);
}

/* The end of a pass over the topmost level: removes it, or begins another pass. */
static int file_remove_finish_level(const struct file_place *p, uint64_t *count)
{
	struct removal_level *l = &stack[used - 1];
	int above = used > 1 ? dirfd(stack[used - 2].dir) : p->dir;

	if (unlinkat(above, l->name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		if ((errno != ENOTEMPTY && errno != EEXIST) || !l->worked)
			return -1;
		l->worked = false;
		rewinddir(l->dir);
		return 0;
	}
	(*count)++;
	(void)closedir(l->dir);
	used--;
	return 0;
}

static int file_remove_tree(const struct file_place *p, uint64_t *count)
{
	if (file_remove_push(p->dir, p->name) < 0)
		return -1;
	while (used > 0) {
		struct removal_level *l = &stack[used - 1];
		struct dirent *entry = readdir(l->dir);
		int rc = 0;

		if (entry == NULL)
			rc = file_remove_finish_level(p, count);
		else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = file_remove_one_entry(l, entry->d_name, count);
		if (rc < 0)
			return -1;
	}
	return 0;
}

int file_remove(int argc, char **argv, struct err *e)
{
	struct file_msg m = { .kind = FILE_MSG_END };
	FILE_PLACE p = FILE_PLACE_NONE;
	bool recursive = strcmp(argv[1], "recursive") == 0;

	if (!recursive && strcmp(argv[1], "-") != 0)
		return err_set(e, ERR_INVALID, "remove: unknown option: %s", argv[1]);
	if (file_resolve_find(argv[0], 0, &p, e) < 0)
		return -1;
	if (unlinkat(p.dir, p.name, 0) == 0 ||
	    (errno == EISDIR && unlinkat(p.dir, p.name, AT_REMOVEDIR) == 0))
		m.end.count = 1;
	else if (!recursive || (errno != ENOTEMPTY && errno != EEXIST) ||
		 file_remove_tree(&p, &m.end.count) < 0)
		return builtin_io_fail(e, "remove", argv[0]);
	return builtin_io_record(&m, e);
}
