/* root_walk.c - see root_walk.h. */
#include "storage/root_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "storage/erofs_disk.h"
#include "storage/erofs_image.h"
#include "storage/layer_tree.h"
#include "storage/member_make.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
#define DEPTH_MAX 1100 /* more than a capture can have */

/* One directory, and those that it is merged of. */
struct walk_dir {
	const struct root_place *at; /* if this is the top of a place */
	bool has_base;
	unsigned n;
	int dirs[ROOT_WALK_STACK_MAX]; /* owned, the highest first */
};

static int walk_visit(struct root_walk *w, const struct walk_dir *d, struct erofs_node *node,
		      struct erofs_node *parent, unsigned depth, struct err *e);

/* ---- owners */

/* In a server of an ordinary user the owners of its base mean nothing in a cell. */
static uint32_t walk_owner(const struct root_walk *w, uint32_t id, bool of_base)
{
	if (w->ids.single || (of_base && w->ids.shift > 0))
		return 0;
	return id >= w->ids.shift ? id - w->ids.shift : id;
}

static struct erofs_node *walk_add(struct root_walk *w, const struct stat *st, bool of_base,
				   struct err *e)
{
	struct erofs_node *n = erofs_tree_add(&w->tree, st, e);

	if (n != NULL) {
		n->uid = walk_owner(w, st->st_uid, of_base);
		n->gid = walk_owner(w, st->st_gid, of_base);
	}
	return n;
}

/* ---- names */

struct walk_name {
	char *name;	/* owned */
	unsigned layer; /* which of the directories has it. Nplaces of them: see below */
};

struct walk_names {
	struct walk_name *list; /* owned */
	size_t n, cap;
};

static void walk_names_release(struct walk_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i].name);
	free(names->list);
}

static int walk_add_name(struct walk_names *names, const char *name, unsigned layer, struct err *e)
{
	if (names->n == names->cap) {
		size_t cap = names->cap == 0 ? 32 : names->cap * 2;
		struct walk_name *more = realloc(names->list, cap * sizeof(*more));

		if (more == NULL)
			return err_set(e, ERR_LIMIT,
				       "the names of a directory take too much memory");
		names->list = more;
		names->cap = cap;
	}
	if (names->n >= EROFS_TREE_MAX)
		return err_set_reason(e, REASON_TOO_LARGE, "more than %u files", EROFS_TREE_MAX);
	names->list[names->n] = (struct walk_name){ strdup(name), layer };
	if (names->list[names->n].name == NULL)
		return err_set(e, ERR_LIMIT, "the names of a directory take too much memory");
	names->n++;
	return 0;
}

static int walk_list_layer(const struct walk_dir *d, unsigned layer, struct walk_names *ret,
			   struct err *e)
{
	int fd = openat(d->dirs[layer], ".", DIR_FLAGS | O_CLOEXEC), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (list == NULL) {
		fd_close(fd);
		return member_fail(e, "list", "a directory");
	}
	for (struct dirent *entry; result == 0 && (entry = readdir(list)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = walk_add_name(ret, entry->d_name, layer, e);
	(void)closedir(list);
	return result;
}

static int walk_by_name_and_layer(const void *a, const void *b)
{
	const struct walk_name *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order != 0 ? order : (x->layer > y->layer) - (x->layer < y->layer);
}

/* The names of all layers in order. Of those with the same name the highest layer comes first. */
static int walk_list_all(const struct root_walk *w, const struct walk_dir *d,
			 struct walk_names *ret, struct err *e)
{
	for (unsigned i = 0; i < d->n; i++)
		if (walk_list_layer(d, i, ret, e) < 0)
			return -1;
	/* A place is there even if no directory below it has its name. */
	for (unsigned i = 1; d->at == w->places && i < w->nplaces; i++)
		if (walk_add_name(ret, w->places[i].name, d->n, e) < 0)
			return -1;
	if (ret->n > 0)
		qsort(ret->list, ret->n, sizeof(ret->list[0]), walk_by_name_and_layer);
	return 0;
}

/* ---- directories */

/* Only "/" has places in it. */
static const struct root_place *walk_find_place(const struct root_walk *w, const struct walk_dir *d,
						const char *name)
{
	for (unsigned i = 1; d->at == w->places && i < w->nplaces; i++)
		if (strcmp(w->places[i].name, name) == 0)
			return &w->places[i];
	return NULL;
}

static int walk_open_at(struct walk_dir *d, int dir, const char *name, struct err *e)
{
	d->dirs[d->n] = openat(dir, name, DIR_FLAGS | O_CLOEXEC);
	if (d->dirs[d->n] < 0)
		return member_fail(e, "open", name);
	d->n++;
	return 0;
}

/* ret owns duplicates, so it is closed as every other directory is. */
static int walk_open_place(const struct root_place *p, struct walk_dir *ret, struct err *e)
{
	ret->at = p;
	ret->has_base = p->has_base;
	for (unsigned i = 0; i < p->n; i++)
		if (walk_open_at(ret, p->dirs[i], ".", e) < 0)
			return -1;
	return 0;
}

/* The directories of that name that show through, the highest one in that layer. */
static int walk_open_merged(const struct walk_dir *d, unsigned layer, const char *name,
			    struct walk_dir *ret, struct err *e)
{
	struct stat st;

	for (unsigned i = layer; i < d->n; i++) {
		if (fstatat(d->dirs[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return member_fail(e, "look at", name);
			continue;
		}
		if (!S_ISDIR(st.st_mode))
			break;
		if (walk_open_at(ret, d->dirs[i], name, e) < 0)
			return -1;
		ret->has_base = d->has_base && i == d->n - 1;
	}
	return 0;
}

static int walk_add_dir(struct root_walk *w, const struct walk_dir *d, struct erofs_node *parent,
			const char *name, unsigned depth, struct err *e)
{
	struct erofs_node *n;
	struct stat st;

	if (fstat(d->dirs[0], &st) < 0)
		return err_sys(e, "look at a directory");
	n = walk_add(w, &st, d->has_base && d->n == 1, e);
	if (n == NULL || erofs_attrs_read(d->dirs[0], &w->ids, n, e) < 0)
		return -1;
	if (parent != NULL && erofs_tree_name(parent, name, n, e) < 0)
		return -1;
	return walk_visit(w, d, n, parent == NULL ? n : parent, depth, e);
}

static int walk_add_merged(struct root_walk *w, const struct walk_dir *d,
			   const struct walk_name *name, struct erofs_node *parent, unsigned depth,
			   struct err *e)
{
	const struct root_place *place = walk_find_place(w, d, name->name);
	struct walk_dir sub = { .n = 0 };
	int result;

	if (depth == DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "over %d levels deep", DEPTH_MAX);
	result = place != NULL ? walk_open_place(place, &sub, e)
			       : walk_open_merged(d, name->layer, name->name, &sub, e);
	if (result == 0)
		result = walk_add_dir(w, &sub, parent, name->name, depth + 1, e);
	io_close_all(sub.dirs, sub.n);
	return result;
}

/* ---- files */

/* Holes of the file stay holes of the image, which the kernel reads as zeros. */
static int walk_add_content(struct root_walk *w, int fd, struct erofs_node *n, struct err *e)
{
	uint64_t blocks = (n->size + EROFS_BLOCK - 1) / EROFS_BLOCK;

	if (erofs_image_check(w->next_block + blocks, w->bytes_max, e) < 0)
		return -1;
	n->block = (uint32_t)w->next_block;
	if (sparse_copy(&w->copy, fd, n->size, w->next_block * EROFS_BLOCK, e) < 0)
		return -1;
	w->next_block += blocks;
	return 0;
}

static int walk_add_target(int dir, const char *name, struct erofs_node *n, struct err *e)
{
	char target[TAR_HEAD_PATH_MAX];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);

	if (len <= 0)
		return member_fail(e, "read the link", name);
	target[len] = '\0';
	n->size = (uint64_t)len;
	n->target = strdup(target);
	return n->target == NULL ? err_set(e, ERR_LIMIT, "links take too much memory") : 0;
}

/* The opened entry must be the one looked at: the base is not ours, and may change. */
static int walk_open_same(int dir, const char *name, const struct stat *want, struct stat *ret,
			  struct err *e)
{
	OWN_FD fd = openat(dir, name, FILE_FLAGS | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret) < 0)
		return member_fail(e, "open", name);
	if (ret->st_ino != want->st_ino || ret->st_dev != want->st_dev)
		return err_set(e, ERR_CONFLICT, "%.100s was replaced while it was read", name);
	return TAKE_FD(fd);
}

/* A regular file or a FIFO. */
static int walk_add_opened(struct root_walk *w, int dir, const char *name, const struct stat *found,
			   bool of_base, struct erofs_node **ret, struct err *e)
{
	struct stat st = { 0 };
	int opened = walk_open_same(dir, name, found, &st, e);

	if (opened < 0)
		return -1;
	OWN_FD fd = opened;
	*ret = walk_add(w, &st, of_base, e);
	if (*ret == NULL || erofs_attrs_read(fd, &w->ids, *ret, e) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		(*ret)->size = 0;
		return 0;
	}
	return walk_add_content(w, fd, *ret, e) < 0 ? err_wrap(e, "%.100s", name) : 0;
}

/* Links, devices and others are never opened. */
static int walk_add_new(struct root_walk *w, int dir, const char *name, const struct stat *st,
			bool of_base, struct erofs_node **ret, struct err *e)
{
	if (S_ISREG(st->st_mode) || S_ISFIFO(st->st_mode))
		return walk_add_opened(w, dir, name, st, of_base, ret, e);
	*ret = walk_add(w, st, of_base, e);
	if (*ret == NULL)
		return -1;
	if (S_ISLNK(st->st_mode))
		return walk_add_target(dir, name, *ret, e);
	(*ret)->size = 0;
	return 0;
}

/* A further link of a file becomes a further name of its node. */
static int walk_add_file(struct root_walk *w, const struct walk_dir *d,
			 const struct walk_name *name, const struct stat *st,
			 struct erofs_node *parent, struct err *e)
{
	bool of_base = d->has_base && name->layer == d->n - 1;
	struct erofs_node *n = st->st_nlink > 1 ? erofs_tree_find_same(&w->tree, st) : NULL;

	if (n != NULL)
		return erofs_tree_name(parent, name->name, n, e);
	if (walk_add_new(w, d->dirs[name->layer], name->name, st, of_base, &n, e) < 0)
		return -1;
	if (st->st_nlink > 1 && erofs_tree_keep_same(&w->tree, st, n, e) < 0)
		return -1;
	return erofs_tree_name(parent, name->name, n, e);
}

static int walk_add_entry(struct root_walk *w, const struct walk_dir *d,
			  const struct walk_name *name, struct erofs_node *parent, unsigned depth,
			  struct err *e)
{
	struct stat st;

	if (walk_find_place(w, d, name->name) != NULL)
		return walk_add_merged(w, d, name, parent, depth, e);
	if (fstatat(d->dirs[name->layer], name->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return member_fail(e, "look at", name->name);
	if (layer_tree_is_whiteout(&st) || S_ISSOCK(st.st_mode))
		return 0;
	if (S_ISDIR(st.st_mode))
		return walk_add_merged(w, d, name, parent, depth, e);
	return walk_add_file(w, d, name, &st, parent, e);
}

/* Of entries with one name only the first counts, which is the highest. */
static int walk_visit(struct root_walk *w, const struct walk_dir *d, struct erofs_node *node,
		      struct erofs_node *parent, unsigned depth, struct err *e)
{
	struct walk_names names = { .n = 0 };
	int result = walk_list_all(w, d, &names, e);

	if (result == 0)
		result = erofs_tree_name(node, ".", node, e);
	if (result == 0)
		result = erofs_tree_name(node, "..", parent, e);
	for (size_t i = 0; result == 0 && i < names.n; i++)
		if (i == 0 || strcmp(names.list[i].name, names.list[i - 1].name) != 0)
			result = walk_add_entry(w, d, &names.list[i], node, depth, e);
	walk_names_release(&names);
	erofs_tree_sort(node);
	return result;
}

int root_walk(struct root_walk *w, struct err *e)
{
	struct walk_dir top = { .n = 0 };
	int result = walk_open_place(&w->places[0], &top, e);

	if (result == 0)
		result = walk_add_dir(w, &top, NULL, NULL, 0, e);
	io_close_all(top.dirs, top.n);
	return result;
}
