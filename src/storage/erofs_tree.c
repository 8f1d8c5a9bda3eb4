/* erofs_tree.c - see erofs_tree.h. */
#include "erofs_tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "erofs_disk.h"

struct erofs_same {
	dev_t dev;
	ino_t ino;
	struct erofs_node *node; /* NULL: free */
};

void erofs_tree_init(struct erofs_tree *t)
{
	*t = (struct erofs_tree){ .first = NULL };
	t->end = &t->first;
}

static void node_free(struct erofs_node *n)
{
	for (uint32_t i = 0; i < n->nentries; i++)
		free(n->entries[i].name);
	free(n->entries);
	free(n->target);
	free(n->attrs);
	free(n);
}

void erofs_tree_release(struct erofs_tree *t)
{
	for (struct erofs_node *n = t->first, *next; n != NULL; n = next) {
		next = n->next; /* alone: all are freed */
		node_free(n);
	}
	free(t->same);
	erofs_tree_init(t);
}

/* As the kernel's new_encode_dev(). */
static uint32_t device_of(const struct stat *st)
{
	uint32_t major = major(st->st_rdev), minor = minor(st->st_rdev);

	if (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode))
		return 0;
	return (minor & 0xffU) | major << 8 | (minor & ~0xffU) << 12;
}

static int no_memory(struct err *e)
{
	return err_set(e, ERR_LIMIT, "the names of all files take too much memory");
}

struct erofs_node *erofs_tree_add(struct erofs_tree *t, const struct stat *st, struct err *e)
{
	struct erofs_node *n;

	if (t->n == EROFS_TREE_MAX) {
		(void)err_set_reason(e, REASON_TOO_LARGE, "more than %u files", EROFS_TREE_MAX);
		return NULL;
	}
	n = calloc(1, sizeof(*n));
	if (n == NULL) {
		(void)no_memory(e);
		return NULL;
	}
	n->size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size;
	n->mode = st->st_mode;
	n->mtime = st->st_mtim.tv_sec;
	n->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
	n->device = device_of(st);
	n->number = ++t->n;
	*t->end = n;
	t->end = &n->next;
	return n;
}

int erofs_tree_name(struct erofs_node *dir, const char *name, struct erofs_node *node,
		    struct err *e)
{
	if (dir->nentries == dir->cap) {
		uint32_t cap = dir->cap == 0 ? 4 : dir->cap * 2;
		struct erofs_entry *more = realloc(dir->entries, cap * sizeof(*more));

		if (more == NULL)
			return no_memory(e);
		dir->entries = more;
		dir->cap = cap;
	}
	dir->entries[dir->nentries] = (struct erofs_entry){ strdup(name), node };
	if (dir->entries[dir->nentries].name == NULL)
		return no_memory(e);
	dir->nentries++;
	node->nlink++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct erofs_entry *)a)->name, ((const struct erofs_entry *)b)->name);
}

void erofs_tree_sort(struct erofs_node *dir)
{
	qsort(dir->entries, dir->nentries, sizeof(*dir->entries), by_name);
}

/* ---- files with several names */

/* The place of a file in the table, which has free ones. */
static uint32_t place_of(const struct erofs_tree *t, dev_t dev, ino_t ino)
{
	uint64_t mixed = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15ULL;
	uint32_t at = (uint32_t)(mixed >> 32) & (t->cap_same - 1);

	while (t->same[at].node != NULL && (t->same[at].dev != dev || t->same[at].ino != ino))
		at = (at + 1) & (t->cap_same - 1);
	return at;
}

struct erofs_node *erofs_tree_find_same(const struct erofs_tree *t, const struct stat *st)
{
	return t->cap_same == 0 ? NULL : t->same[place_of(t, st->st_dev, st->st_ino)].node;
}

static int grow(struct erofs_tree *t, struct err *e)
{
	struct erofs_same *old = t->same;
	uint32_t n = t->cap_same;

	t->cap_same = n == 0 ? 256 : n * 2;
	t->same = calloc(t->cap_same, sizeof(*t->same));
	if (t->same == NULL) {
		free(old);
		t->cap_same = 0;
		return no_memory(e);
	}
	for (uint32_t i = 0; i < n; i++)
		if (old[i].node != NULL)
			t->same[place_of(t, old[i].dev, old[i].ino)] = old[i];
	free(old);
	return 0;
}

int erofs_tree_keep_same(struct erofs_tree *t, const struct stat *st, struct erofs_node *node,
			 struct err *e)
{
	if (t->nsame >= t->cap_same / 2 && grow(t, e) < 0)
		return -1;
	t->same[place_of(t, st->st_dev, st->st_ino)] =
		(struct erofs_same){ st->st_dev, st->st_ino, node };
	t->nsame++;
	return 0;
}
