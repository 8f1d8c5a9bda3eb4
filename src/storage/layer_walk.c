/* layer_walk.c - the part of layer_tree.h that goes from directory to directory, and through all
 * names that lower layers have. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "layer_walk.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define LINKS_MAX 40
#define REST_MAX (2 * TAR_HEAD_PATH_MAX)

/* ---- walking */

/* Where a link leads, of this layer or of a lower one. */
static int read_link(const struct layer_tree *t, const char *name, const struct layer_found *f,
		     char ret[TAR_HEAD_PATH_MAX], struct err *e)
{
	ssize_t n;

	if (!f->in_own)
		return layer_tree_read_lower(t, name, f, ret, e) < 0 ? -1 : 0;
	n = readlinkat(t->dir, name, ret, TAR_HEAD_PATH_MAX - 1);
	if (n < 0)
		return err_sys(e, "read the link %.150s", name);
	ret[n] = '\0';
	return 0;
}

/* A walk: what is left of the path, and how many links were followed. */
struct walk {
	char rest[REST_MAX];
	unsigned links;
};

static int follow(struct layer_tree *t, struct walk *w, const char *name,
		  const struct layer_found *f, struct err *e)
{
	char target[TAR_HEAD_PATH_MAX], all[REST_MAX];
	int n;

	if (++w->links > LINKS_MAX)
		return err_set(e, ERR_INVALID, "too many links on the way to %.150s", name);
	if (read_link(t, name, f, target, e) < 0)
		return -1;
	n = snprintf(all, sizeof(all), "%s/%s", target, w->rest);
	if (n < 0 || (size_t)n >= sizeof(all))
		return err_set(e, ERR_LIMIT, "a path of over 4095 bytes");
	memcpy(w->rest, all, (size_t)n + 1);
	return target[0] == '/' ? layer_go_top(t, e) : 0;
}

static int step(struct layer_tree *t, struct walk *w, const char *name, struct err *e)
{
	const struct stat *st;
	struct layer_found f;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0)
		return layer_go_up(t, e);
	if (layer_tree_look(t, name, &f, e) < 0)
		return -1;
	st = f.in_own ? &f.own : f.in_lower ? &f.lower : NULL;
	if (st != NULL && S_ISLNK(st->st_mode))
		return follow(t, w, name, &f, e);
	if (st != NULL && !S_ISDIR(st->st_mode) && !layer_tree_is_whiteout(st))
		return err_set(e, ERR_INVALID, "%.150s is not a directory", name);
	if (layer_tree_mkdir(t, name, &f, e) < 0)
		return -1;
	return layer_go_down(t, name, &f.mask, e);
}

static int walk(struct layer_tree *t, struct walk *w, struct err *e)
{
	char name[NAME_MAX + 1];

	while (w->rest[0] != '\0') {
		size_t n = strcspn(w->rest, "/"), skip = n + strspn(w->rest + n, "/");

		if (n > NAME_MAX)
			return err_set(e, ERR_LIMIT, "a name of over 255 bytes");
		memcpy(name, w->rest, n);
		name[n] = '\0';
		memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
		if (n > 0 && step(t, w, name, e) < 0)
			return -1;
	}
	return 0;
}

/* Archives come directory by directory: most often we are there. */
static int go(struct layer_tree *t, const char *path, size_t n, struct err *e)
{
	struct walk w = { .links = 0 };

	if (strlen(t->path) == n && memcmp(t->path, path, n) == 0)
		return 0;
	memcpy(w.rest, path, n);
	w.rest[n] = '\0';
	return layer_go_top(t, e) < 0 ? -1 : walk(t, &w, e);
}

int layer_tree_enter(struct layer_tree *t, const char *path, struct err *e)
{
	return go(t, path, strlen(path), e);
}

int layer_tree_parent(struct layer_tree *t, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');

	*ret_name = slash == NULL ? path : slash + 1;
	if (strlen(*ret_name) > NAME_MAX)
		return err_set(e, ERR_LIMIT, "a name of over 255 bytes");
	return go(t, path, slash == NULL ? 0 : (size_t)(slash - path), e);
}

/* ---- all names of lower layers */

static int hide_names(struct layer_tree *t, DIR *d, struct err *e)
{
	struct dirent *entry;
	int result = 0;

	while (result == 0 && (entry = readdir(d)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = layer_tree_hide_name(t, entry->d_name, e);
	return result;
}

int layer_tree_hide_all(struct layer_tree *t, struct err *e)
{
	const struct layer_mask mask = t->mask[t->depth];
	int result = 0;

	for (unsigned i = 0; i < t->nlower && result == 0; i++) {
		DIR *d;
		int fd;

		if ((mask.bits[i / 64] >> (i % 64) & 1) == 0)
			continue;
		fd = kernel_openat2(t->lower[i], t->path[0] == '\0' ? "." : t->path,
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC, BENEATH);
		d = fd < 0 ? NULL : fdopendir(fd);
		if (d == NULL) {
			fd_close(fd);
			return err_sys(e, "list %.150s", t->path);
		}
		result = hide_names(t, d, e);
		(void)closedir(d);
	}
	return result;
}
