/* op_fold.c - makes one layer from several: files are linked, directories and whiteouts made anew.
 *
 * A name is what the highest layer that has it says. A directory is merged with those of the layers
 * below it, down to the first where the name is something else: that hides what is below. Whiteouts
 * stay, because layers below the folded ones may have the name, unless the request says that there
 * are none.
 *
 * A directory over something that hides it, in the same fold, would show what is below the folded
 * layers again. It does not, because layers of captures have a whiteout for each such entry
 * (init/capture.c); layers of images do not, and are folded from the bottom (storage_msg.h).
 *
 * Runs in a worker; names and depth are those of archives that were unpacked before. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "layer_make.h"
#include "layer_tree.h"
#include "member_make.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PLACES_MAX 40
#define DEPTH_MAX 1100 /* more than a capture can have */
#define BLOCK 4096U

/* One directory of the new layer, and of those that it is made of. */
struct fold_dir {
	int to;
	unsigned n;
	int from[STORAGE_STACK_MAX]; /* the highest first */
};

static bool bottom;
static struct storage_reply *counts;

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool find(int dir, const char *name, struct stat *ret)
{
	return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static int fold(const struct fold_dir *d, unsigned depth, struct err *e);

/* The directories that show through, the highest of which is d->from[i]. */
static int open_merged(const struct fold_dir *d, unsigned i, const char *name, struct fold_dir *ret,
		       struct err *e)
{
	struct stat st;

	for (ret->n = 0; i < d->n; i++) {
		if (!find(d->from[i], name, &st))
			continue;
		if (!S_ISDIR(st.st_mode))
			break;
		ret->from[ret->n] = openat(d->from[i], name, DIR_FLAGS);
		if (ret->from[ret->n] < 0)
			return member_fail(e, "open", name);
		ret->n++;
	}
	return 0;
}

static int fold_directory(const struct fold_dir *d, unsigned i, const char *name, unsigned depth,
			  struct err *e)
{
	struct fold_dir sub = { .to = -1 };
	int result;

	if (depth == DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "over %d levels deep", DEPTH_MAX);
	result = open_merged(d, i, name, &sub, e);
	if (result == 0 &&
	    (mkdirat(d->to, name, 0700) < 0 || (sub.to = openat(d->to, name, DIR_FLAGS)) < 0))
		result = member_fail(e, "make", name);
	if (result == 0)
		result = fold(&sub, depth + 1, e);
	io_close_all(&sub.to, 1);
	io_close_all(sub.from, sub.n);
	return result;
}

static int fold_entry(const struct fold_dir *d, unsigned i, const char *name, unsigned depth,
		      struct err *e)
{
	struct stat st;

	if (!find(d->from[i], name, &st))
		return member_fail(e, "look at", name);
	if (layer_tree_is_whiteout(&st) && bottom)
		return 0;
	counts->entries++;
	if (S_ISDIR(st.st_mode)) {
		counts->bytes += BLOCK;
		return fold_directory(d, i, name, depth, e);
	}
	if (layer_tree_is_whiteout(&st))
		return mknodat(d->to, name, S_IFCHR, 0) < 0 ? member_fail(e, "hide", name) : 0;
	if (S_ISREG(st.st_mode))
		counts->bytes += ((uint64_t)st.st_blocks * 512 + BLOCK - 1) / BLOCK * BLOCK;
	return linkat(d->from[i], name, d->to, name, 0) < 0 ? member_fail(e, "link", name) : 0;
}

/* The names of one layer that no higher one has. */
static int fold_names(const struct fold_dir *d, unsigned i, unsigned depth, struct err *e)
{
	int fd = openat(d->from[i], ".", DIR_FLAGS), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (list == NULL)
		return member_fail(e, "list", "a layer");
	for (struct dirent *entry; result == 0 && (entry = readdir(list)) != NULL;) {
		unsigned higher = 0;

		if (is_dots(entry->d_name))
			continue;
		while (higher < i && !find(d->from[higher], entry->d_name, &st))
			higher++;
		if (higher == i)
			result = fold_entry(d, i, entry->d_name, depth, e);
	}
	(void)closedir(list);
	return result;
}

static int fold(const struct fold_dir *d, unsigned depth, struct err *e)
{
	for (unsigned i = 0; i < d->n; i++)
		if (fold_names(d, i, depth, e) < 0)
			return -1;
	/* Last, because entries that are made change its time. */
	return d->n == 0 ? 0 : member_copy_dir(d->from[0], d->to, e);
}

/* One place; a layer may not have it. */
static int fold_place(int top, const int *layers, unsigned n, const char *name, bool *ret_any,
		      struct err *e)
{
	struct fold_dir all = { .to = top };
	int result = 0;

	*ret_any = false;
	for (unsigned i = n; i > 0; i--)
		all.from[all.n++] = layers[i - 1];
	for (unsigned i = 0; i < all.n && !*ret_any; i++) {
		struct stat st;

		*ret_any = find(all.from[i], name, &st);
		if (*ret_any)
			result = fold_entry(&all, i, name, 0, e);
	}
	return result;
}

struct folded {
	uint32_t flags;
	unsigned n;
};

static int work(void *arg, int top, const int *layers, struct storage_reply *reply, struct err *e)
{
	const struct folded *f = arg;
	bool any = true;
	char name[8];

	bottom = (f->flags & STORAGE_FOLD_BOTTOM) != 0;
	counts = reply;
	for (unsigned place = 0; place < PLACES_MAX && any; place++) {
		(void)snprintf(name, sizeof(name), "%u", place);
		if (fold_place(top, layers, f->n, name, &any, e) < 0)
			return err_wrap(e, "fold");
	}
	return 0;
}

int op_fold(struct storage_run *run, struct err *e)
{
	const struct storage_fold *r = &run->r->fold;
	struct folded f = { r->flags, r->nfrom };
	const struct layer_make m = { .id = r->layer,
				      .lower = r->from,
				      .nlower = r->nfrom,
				      .links = true,
				      .work = work,
				      .arg = &f };

	return layer_make(run, &m, e);
}
