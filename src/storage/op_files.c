/* op_files.c - lists a directory as cells of these layers would see it. The worker makes
 * directories on the way to it (layer_tree.h) in a directory removed afterwards. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/io.h"
#include "storage/layer_make.h"
#include "storage/layer_tree.h"
#include "storage/storage_jail.h"

#define WAY_MAX 1024U /* directories that may be made on the way */

struct storage_listing {
	struct layer_tree *tree;
	const struct storage_files *r;
	struct storage_ids ids;
	struct storage_file *files; /* owned: as many as the limit says */
	uint32_t *sorted;	    /* owned: indexes of files, by their names */
	uint32_t n;
};

/* Where a name is in `sorted`, or would be. */
static uint32_t files_place_of(const struct storage_listing *l, const char *name)
{
	uint32_t from = 0, to = l->n;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (strcmp(l->files[l->sorted[middle]].name, name) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* True if a higher layer has given this name already. */
static bool files_is_there(const struct storage_listing *l, const char *name)
{
	uint32_t at = files_place_of(l, name);

	return at < l->n && strcmp(l->files[l->sorted[at]].name, name) == 0;
}

/* Names that only whiteouts have are left out. `sorted` stays in order by an insertion. */
static int files_add(struct storage_listing *l, const char *name, struct err *e)
{
	struct storage_file *f = &l->files[l->n];
	struct layer_found found;
	uint32_t at;

	if (layer_tree_look(l->tree, name, &found, e) < 0)
		return -1;
	if (!found.in_lower)
		return 0;
	memset(f, 0, sizeof(*f));
	f->mode = found.lower.st_mode;
	f->uid = l->ids.single ? 0 : found.lower.st_uid - l->ids.shift;
	f->gid = l->ids.single ? 0 : found.lower.st_gid - l->ids.shift;
	f->size = S_ISREG(found.lower.st_mode) ? (uint64_t)found.lower.st_size : 0;
	f->mtime = found.lower.st_mtim.tv_sec;
	memcpy(f->name, name, strnlen(name, sizeof(f->name) - 1));
	if (S_ISLNK(found.lower.st_mode)) {
		char target[TAR_HEAD_PATH_MAX];

		if (layer_tree_read_lower(l->tree, name, &found, target, e) < 0)
			return -1;
		memcpy(f->link, target, strnlen(target, sizeof(f->link) - 1));
	}
	at = files_place_of(l, f->name);
	memmove(&l->sorted[at + 1], &l->sorted[at], (l->n - at) * sizeof(l->sorted[0]));
	l->sorted[at] = l->n++;
	return 0;
}

/* Stop at the limit: l->files has no more room. */
static int files_add_layer(struct storage_listing *l, unsigned i, struct err *e)
{
	int fd = openat(l->tree->lower[i], l->tree->path[0] == '\0' ? "." : l->tree->path,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int result = 0;

	if (d == NULL) {
		fd_close(fd);
		return err_sys(e, "list a layer");
	}
	for (struct dirent *entry;
	     result == 0 && l->n < l->r->limit && (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    !files_is_there(l, entry->d_name))
			result = files_add(l, entry->d_name, e);
	(void)closedir(d);
	return result;
}

/* The answer is sorted by the names' bytes. */
static int files_compare(const void *a, const void *b)
{
	return strcmp(((const struct storage_file *)a)->name,
		      ((const struct storage_file *)b)->name);
}

/* ERR_NOT_FOUND, or goes to the directory. */
static int files_enter(struct layer_tree *t, const char *path, struct err *e)
{
	struct layer_found f;
	const char *name;

	if (path[0] == '\0')
		return 0;
	if (layer_tree_parent(t, path, &name, e) < 0 || layer_tree_look(t, name, &f, e) < 0)
		return -1;
	if (!f.in_lower)
		return err_set(e, ERR_NOT_FOUND, "/%.150s does not exist", path);
	return layer_tree_enter(t, path, e);
}

/* The highest layer first, though files_add() takes each entry from the layer that shows it. */
static int files_list(struct storage_listing *l, struct err *e)
{
	struct layer_mask mask;

	if (files_enter(l->tree, l->r->path, e) < 0)
		return -1;
	mask = l->tree->mask[l->tree->depth];
	for (unsigned i = l->tree->nlower; i-- > 0;)
		if ((mask.bits[i / 64] >> (i % 64) & 1) != 0 && l->n < l->r->limit &&
		    files_add_layer(l, i, e) < 0)
			return -1;
	qsort(l->files, l->n, sizeof(l->files[0]), files_compare);
	return 0;
}

/* The answer's bytes go to the request's descriptor, as an array of struct storage_file. */
static int files_work(void *arg, int top, const int *lower, struct storage_reply *reply,
		      struct err *e)
{
	const struct storage_run *run = arg;
	static struct layer_tree tree; /* large */
	struct storage_listing l = { .tree = &tree,
				     .r = &run->r->files,
				     .ids = storage_jail_ids() };
	int roots[STORAGE_STACK_MAX];
	int root = layer_make_root(top, lower, l.r->nlower, roots, e);

	if (root < 0 || layer_tree_init(&tree, root, roots, l.r->nlower, e) < 0)
		return -1;
	tree.count.bytes_max = UINT64_MAX;
	tree.count.entries_max = WAY_MAX;
	l.files = calloc(l.r->limit, sizeof(*l.files));
	l.sorted = calloc(l.r->limit, sizeof(*l.sorted));
	if (l.files == NULL || l.sorted == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (files_list(&l, e) < 0)
		return -1;
	reply->entries = l.n;
	return io_write_all(run->fds[0], l.files, l.n * sizeof(*l.files), e);
}

int op_files(struct storage_run *run, struct err *e)
{
	const struct layer_make m = { .lower = run->r->files.lower,
				      .nlower = run->r->files.nlower,
				      .work = files_work,
				      .arg = run };

	return layer_make_nothing(run, &m, e);
}
