/* tree_remove.c - theory of operation
 *
 * A tree can be deeper than there are descriptors. So a directory found inside of another one below
 * LEVELS_MAX is moved to the top of the tree under a name of its own, and removed as a tree of its
 * own later: depth becomes width. */
#include "storage/tree_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

#define LEVELS_MAX 64

/* One call of tree_remove(). `moved` numbers the directories that were moved to the top. */
struct tree_removal {
	int top; /* borrowed: the directory that the tree is in */
	uint64_t moved;
	const char *name;
};

static int remove_list(int dir, const char *name, DIR **ret)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	*ret = fd < 0 ? NULL : fdopendir(fd);
	if (*ret == NULL && fd >= 0)
		fd_close(fd);
	return *ret == NULL ? -1 : 0;
}

static void remove_moved_name(const struct tree_removal *r, uint64_t n, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, ".gone-%llu-%.200s", (unsigned long long)n,
		       r->name[0] == '.' ? r->name + 1 : r->name);
}

static int remove_move_up(struct tree_removal *r, int dir, const char *name)
{
	char to[256];

	remove_moved_name(r, ++r->moved, to, sizeof(to));
	return renameat(dir, name, r->top, to);
}

static int remove_empty(struct tree_removal *r, int dir, const char *name, unsigned level);

/* -1 with errno. Directories are told by the failure of unlinkat(). */
static int remove_entry(struct tree_removal *r, int dir, const char *name, unsigned level)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	if (level == LEVELS_MAX)
		return remove_move_up(r, dir, name);
	if (remove_empty(r, dir, name, level + 1) < 0)
		return -1;
	return unlinkat(dir, name, AT_REMOVEDIR);
}

/* Remove the entries of the directory. Listed again until nothing is found: some file systems skip
 * entries while others are removed. */
static int remove_empty(struct tree_removal *r, int dir, const char *name, unsigned level)
{
	bool found = true;
	int result = 0;

	while (found && result == 0) {
		DIR *d;

		found = false;
		if (remove_list(dir, name, &d) < 0)
			return -1;
		for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;) {
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			found = true;
			result = remove_entry(r, dirfd(d), entry->d_name, level);
		}
		(void)closedir(d);
	}
	return result;
}

/* Moved directories may move others, so the loop follows r.moved while it grows. */
int tree_remove(int dir_fd, const char *name, struct err *e)
{
	struct tree_removal r = { .top = dir_fd, .name = name };
	char moved[256];

	if (remove_entry(&r, dir_fd, name, 0) < 0)
		return err_sys(e, "remove %.100s", name);
	for (uint64_t i = 1; i <= r.moved; i++) {
		remove_moved_name(&r, i, moved, sizeof(moved));
		if (remove_entry(&r, dir_fd, moved, 0) < 0)
			return err_sys(e, "remove %.100s", moved);
	}
	return 0;
}
