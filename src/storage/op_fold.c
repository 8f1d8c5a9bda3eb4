/* op_fold.c - makes one layer from the lowest ones of a stack, or from those above some that stay:
 * files are linked, directories and whiteouts made again.
 *
 * The highest layer with a name decides about it. A directory is merged with those of the layers
 * below it, down to the first where the name is something else, which hides those below. The base
 * below the layers will be merged with the new layer wherever both have a directory. It may itself
 * be a stack: layers that stay, and their own base. So where the layers hid something of it, the
 * new layer has a whiteout, and nowhere else: overlayfs lists whiteouts as files in an unmerged
 * directory.
 *
 * Runs in a worker. Names and depth are those of archives unpacked before. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "storage/layer_make.h"
#include "storage/layer_tree.h"
#include "storage/member_make.h"
#include "storage/storage_ops.h"
#include "storage/storage_room.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define PLACES_MAX 40
#define DEPTH_MAX 1100 /* more than a capture can have */
#define BLOCK 4096U

/* One directory of the new layer, and its sources. */
struct fold_dir {
	int to;
	bool hides_base; /* nothing of the base was to be seen */
	unsigned n, nbase;
	int from[STORAGE_STACK_MAX];	 /* the layers, the highest first */
	int base[STORAGE_STACK_MAX + 1]; /* what it will be merged with, likewise. none: nothing */
};

/* Bytes and entries of the new layer so far. One worker folds one layer. */
static struct storage_reply *counts;

static bool fold_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A name that cannot be looked at counts as missing. */
static bool fold_find(int dir, const char *name, struct stat *ret)
{
	return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static int op_fold_fold(const struct fold_dir *d, unsigned depth, struct err *e);

/* The directories of the base that show through, if its name is a directory. */
static int fold_open_base_dirs(const struct fold_dir *d, const char *name, struct fold_dir *ret,
			       struct err *e)
{
	struct stat st;

	for (unsigned i = 0; i < d->nbase; i++) {
		if (!fold_find(d->base[i], name, &st))
			continue;
		if (!S_ISDIR(st.st_mode))
			break;
		ret->base[ret->nbase] = openat(d->base[i], name, DIR_FLAGS | O_CLOEXEC);
		if (ret->base[ret->nbase] < 0)
			return member_fail(e, "open", name);
		ret->nbase++;
	}
	return 0;
}

/* The directories that show through, the highest one in layer i. */
static int fold_open_merged(const struct fold_dir *d, unsigned i, const char *name,
			    struct fold_dir *ret, struct err *e)
{
	struct stat st;

	ret->hides_base = d->hides_base;
	if (fold_open_base_dirs(d, name, ret, e) < 0)
		return -1;
	for (ret->n = 0; i < d->n; i++) {
		if (!fold_find(d->from[i], name, &st))
			continue;
		if (!S_ISDIR(st.st_mode)) {
			ret->hides_base = true;
			break;
		}
		ret->from[ret->n] = openat(d->from[i], name, DIR_FLAGS | O_CLOEXEC);
		if (ret->from[ret->n] < 0)
			return member_fail(e, "open", name);
		ret->n++;
	}
	return 0;
}

/* Make one merged directory and fold into it. All its descriptors are closed again. */
static int fold_directory(const struct fold_dir *d, unsigned i, const char *name, unsigned depth,
			  struct err *e)
{
	struct fold_dir sub = { .to = -1 };
	int result;

	if (depth == DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "over %d levels deep", DEPTH_MAX);
	result = fold_open_merged(d, i, name, &sub, e);
	if (result == 0)
		result = storage_room_take(d->to, BLOCK, e);
	if (result == 0 && (mkdirat(d->to, name, 0700) < 0 ||
			    (sub.to = openat(d->to, name, DIR_FLAGS | O_CLOEXEC)) < 0))
		result = member_fail(e, "make", name);
	if (result == 0)
		result = op_fold_fold(&sub, depth + 1, e);
	io_close_all(&sub.to, 1);
	io_close_all(sub.base, sub.nbase);
	io_close_all(sub.from, sub.n);
	return result;
}

/* Files are linked, so both layers have the same blocks on disk. */
static int fold_entry(const struct fold_dir *d, unsigned i, const char *name, unsigned depth,
		      struct err *e)
{
	struct stat st;

	if (!fold_find(d->from[i], name, &st))
		return member_fail(e, "look at", name);
	if (layer_tree_is_whiteout(&st))
		return 0; /* see fold_hide_base() */
	counts->entries++;
	if (S_ISDIR(st.st_mode)) {
		counts->bytes += BLOCK;
		return fold_directory(d, i, name, depth, e);
	}
	if (S_ISREG(st.st_mode))
		counts->bytes += ((uint64_t)st.st_blocks * 512 + BLOCK - 1) / BLOCK * BLOCK;
	return linkat(d->from[i], name, d->to, name, 0) < 0 ? member_fail(e, "link", name) : 0;
}

/* Did the layers hide this name of the base, which the new layer does not have? */
static bool fold_is_hidden(const struct fold_dir *d, const char *name)
{
	struct stat st;

	for (unsigned i = 0; i < d->n && !d->hides_base; i++)
		if (fold_find(d->from[i], name, &st))
			return true; /* a whiteout: anything else would be in the new layer */
	return d->hides_base;
}

/* Is the name of one directory of the base to be seen there? */
static bool fold_shows(const struct fold_dir *d, unsigned i, const char *name)
{
	struct stat st;

	for (unsigned higher = 0; higher < i; higher++)
		if (fold_find(d->base[higher], name, &st))
			return false; /* that one is looked at */
	return fold_find(d->base[i], name, &st) && !layer_tree_is_whiteout(&st);
}

/* Write the whiteouts for one directory of the base. */
static int fold_hide_names(const struct fold_dir *d, unsigned i, struct err *e)
{
	int fd = openat(d->base[i], ".", DIR_FLAGS | O_CLOEXEC), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (list == NULL)
		return member_fail(e, "list", "what is below the layers");
	for (struct dirent *entry; result == 0 && (entry = readdir(list)) != NULL;) {
		const char *name = entry->d_name;

		if (fold_is_dots(name) || fold_find(d->to, name, &st) || !fold_is_hidden(d, name) ||
		    !fold_shows(d, i, name))
			continue;
		counts->entries++;
		if (mknodat(d->to, name, S_IFCHR, 0) < 0)
			result = member_fail(e, "hide", name);
	}
	(void)closedir(list);
	return result;
}

/* From the highest directory down. A name that has its whiteout is passed over. */
static int fold_hide_base(const struct fold_dir *d, struct err *e)
{
	for (unsigned i = 0; i < d->nbase; i++)
		if (fold_hide_names(d, i, e) < 0)
			return -1;
	return 0;
}

/* The names of one layer that no higher one has. */
static int fold_names(const struct fold_dir *d, unsigned i, unsigned depth, struct err *e)
{
	int fd = openat(d->from[i], ".", DIR_FLAGS | O_CLOEXEC), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (list == NULL)
		return member_fail(e, "list", "a layer");
	for (struct dirent *entry; result == 0 && (entry = readdir(list)) != NULL;) {
		unsigned higher = 0;

		if (fold_is_dots(entry->d_name))
			continue;
		while (higher < i && !fold_find(d->from[higher], entry->d_name, &st))
			higher++;
		if (higher == i)
			result = fold_entry(d, i, entry->d_name, depth, e);
	}
	(void)closedir(list);
	return result;
}

static int op_fold_fold(const struct fold_dir *d, unsigned depth, struct err *e)
{
	for (unsigned i = 0; i < d->n; i++)
		if (fold_names(d, i, depth, e) < 0)
			return -1;
	if (fold_hide_base(d, e) < 0)
		return -1;
	/* Last, because new entries change its time. */
	return d->n == 0 ? 0 : member_copy_dir(d->from[0], d->to, e);
}

/* ---- places */

struct folded {
	unsigned n, stay;     /* layers, of which these, the lowest, are only looked at */
	int base[PLACES_MAX]; /* -1: none */
	uint32_t reserve_percent;
};

/* Append the directory to the list, if it exists. */
static void fold_open_place(int layer, const char *name, int *list, unsigned *n)
{
	int fd = openat(layer, name, DIR_FLAGS | O_CLOEXEC);

	if (fd >= 0)
		list[(*n)++] = fd;
}

/* One place of the layers. Some may not have it. base: of the same place. */
static int fold_place(int top, const int *layers, unsigned place, const struct folded *f,
		      bool *ret_any, struct err *e)
{
	struct fold_dir all = { .to = -1 };
	char name[8];
	int result = 0;

	(void)snprintf(name, sizeof(name), "%u", place);
	for (unsigned i = f->n; i > f->stay; i--)
		fold_open_place(layers[i - 1], name, all.from, &all.n);
	for (unsigned i = f->stay; i > 0; i--)
		fold_open_place(layers[i - 1], name, all.base, &all.nbase);
	if (f->base[place] >= 0)
		fold_open_place(f->base[place], ".", all.base, &all.nbase);
	*ret_any = all.n > 0;
	if (*ret_any && (mkdirat(top, name, 0700) < 0 ||
			 (all.to = openat(top, name, DIR_FLAGS | O_CLOEXEC)) < 0))
		result = member_fail(e, "make", name);
	if (*ret_any && result == 0)
		result = op_fold_fold(&all, 0, e);
	io_close_all(&all.to, 1);
	io_close_all(all.from, all.n);
	io_close_all(all.base, all.nbase);
	return result;
}

/* Places have consecutive numbers, so the first missing one is the end. */
static int fold_work(void *arg, int top, const int *layers, struct storage_reply *reply,
		     struct err *e)
{
	const struct folded *f = arg;
	bool any = true;

	counts = reply;
	storage_room_keep(f->reserve_percent);
	for (unsigned place = 0; place < PLACES_MAX && any; place++)
		if (fold_place(top, layers, place, f, &any, e) < 0)
			return err_wrap(e, "fold");
	return 0;
}

static int fold_open_base(const struct storage_fold *r, struct folded *f, struct err *e)
{
	memset(f->base, 0xff, sizeof(f->base)); /* every descriptor -1 */
	return storage_base_open(r->flags, r->base, f->base, e);
}

int op_fold(struct storage_run *run, struct err *e)
{
	const struct storage_fold *r = &run->r->fold;
	struct folded f = { .n = r->nfrom,
			    .stay = r->nbelow,
			    .reserve_percent = r->reserve_percent };
	const struct layer_make m = { .id = r->layer,
				      .lower = r->from,
				      .nlower = r->nfrom,
				      .links = true,
				      .read = f.base,
				      .nread = COUNT(f.base),
				      .work = fold_work,
				      .arg = &f };
	int result = fold_open_base(r, &f, e) < 0 ? -1 : layer_make(run, &m, e);

	io_close_all(f.base, COUNT(f.base));
	return result;
}
