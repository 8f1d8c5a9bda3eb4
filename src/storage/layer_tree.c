#include "storage/layer_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/kernel.h"
#include "lib/base/rmtree.h"
#include "storage/member_make.h"
#include "storage/storage_room.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

#define BLOCK 4096U

/* ---- the directory where we are */

/* Reopen t->dir at t->path. BENEATH makes the kernel refuse links, so the path means what the walk
 * found. */
static int layer_open_dir(struct layer_tree *t, struct err *e)
{
	fd_close(TAKE_FD(t->dir));
	t->dir = kernel_openat2(t->own, t->path[0] == '\0' ? "." : t->path,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC, BENEATH);
	return t->dir < 0 ? member_fail(e, "open", t->path) : 0;
}

/* At the top every lower layer takes part. */
int layer_tree_init(struct layer_tree *t, int own, const int *lower, unsigned nlower, struct err *e)
{
	memset(t, 0, sizeof(*t));
	t->own = own;
	t->lower = lower;
	t->nlower = nlower;
	t->dir = -1;
	if (nlower > LAYER_TREE_LOWER_MAX)
		return err_set(e, ERR_LIMIT, "too many layers");
	for (unsigned i = 0; i < nlower; i++)
		t->mask[0].bits[i / 64] |= (uint64_t)1 << (i % 64);
	return layer_open_dir(t, e);
}

void layer_tree_release(struct layer_tree *t)
{
	fd_close(TAKE_FD(t->dir));
}

/* Back to the top of this layer. The mask of depth 0 never changes. */
static int layer_go_top(struct layer_tree *t, struct err *e)
{
	t->depth = 0;
	t->path[0] = '\0';
	return layer_open_dir(t, e);
}

/* ".." at the top stays there, as in a root directory. */
static int layer_go_up(struct layer_tree *t, struct err *e)
{
	if (t->depth == 0)
		return 0;
	t->depth--;
	t->path[t->end[t->depth]] = '\0';
	return layer_open_dir(t, e);
}

/* Into a directory that this layer has. */
static int layer_go_down(struct layer_tree *t, const char *name, const struct layer_mask *mask,
			 struct err *e)
{
	size_t at = t->end[t->depth], n = strlen(name);

	if (t->depth == LAYER_TREE_DEPTH_MAX || at + n + 2 > sizeof(t->path))
		return err_set(e, ERR_LIMIT, "a path of over %d levels or 4095 bytes",
			       LAYER_TREE_DEPTH_MAX);
	if (at > 0)
		t->path[at++] = '/';
	memcpy(t->path + at, name, n + 1);
	t->depth++;
	t->end[t->depth] = at + n;
	t->mask[t->depth] = *mask;
	return layer_open_dir(t, e);
}

/* ---- looking */

bool layer_tree_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* The path of a name for lower layers. The result always fits: path and name are both below
 * TAR_HEAD_PATH_MAX. */
static int layer_join(const struct layer_tree *t, const char *name, char ret[2 * TAR_HEAD_PATH_MAX])
{
	return snprintf(ret, 2 * (size_t)TAR_HEAD_PATH_MAX, "%s%s%s", t->path,
			t->path[0] == '\0' ? "" : "/", name);
}

/* Bit i of the mask stands for lower layer i. */
static bool layer_has(const struct layer_mask *m, unsigned i)
{
	return (m->bits[i / 64] >> (i % 64) & 1) != 0;
}

/* From the top down, until an entry hides those below it. */
static int layer_look_lower(const struct layer_tree *t, const char *name, struct layer_found *ret,
			    struct err *e)
{
	char path[2 * TAR_HEAD_PATH_MAX];
	struct stat st;

	(void)layer_join(t, name, path);
	for (unsigned i = t->nlower; i-- > 0;) {
		if (!layer_has(&t->mask[t->depth], i))
			continue;
		if (fstatat(t->lower[i], path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return member_fail(e, "look for", path);
		}
		if (layer_tree_is_whiteout(&st) || (ret->in_lower && !S_ISDIR(st.st_mode)))
			break;
		if (!ret->in_lower) {
			ret->in_lower = true;
			ret->lower = st;
			ret->layer = i;
		}
		if (!S_ISDIR(st.st_mode))
			break;
		ret->mask.bits[i / 64] |= (uint64_t)1 << (i % 64);
	}
	return 0;
}

/* f.mask is empty unless lower layers have a directory of that name. */
int layer_tree_look(const struct layer_tree *t, const char *name, struct layer_found *ret,
		    struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	if (fstatat(t->dir, name, &ret->own, AT_SYMLINK_NOFOLLOW) == 0)
		ret->in_own = true;
	else if (errno != ENOENT)
		return member_fail(e, "look for", name);
	return layer_look_lower(t, name, ret, e);
}

int layer_tree_open_lower(const struct layer_tree *t, const char *name, const struct layer_found *f,
			  struct err *e)
{
	char path[2 * TAR_HEAD_PATH_MAX];
	int fd;

	(void)layer_join(t, name, path);
	fd = kernel_openat2(t->lower[f->layer], path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, BENEATH);
	return fd < 0 ? member_fail(e, "open", path) : fd;
}

ssize_t layer_tree_read_lower(const struct layer_tree *t, const char *name,
			      const struct layer_found *f, char ret[TAR_HEAD_PATH_MAX],
			      struct err *e)
{
	char path[2 * TAR_HEAD_PATH_MAX];
	ssize_t n;

	(void)layer_join(t, name, path);
	n = readlinkat(t->lower[f->layer], path, ret, TAR_HEAD_PATH_MAX - 1);
	if (n < 0)
		return member_fail(e, "read the link", path);
	ret[n] = '\0';
	return n;
}

/* ---- making and hiding */

int layer_tree_count(struct layer_tree *t, uint64_t bytes, struct err *e)
{
	t->count.entries++;
	t->count.bytes += (bytes + BLOCK - 1) / BLOCK * BLOCK;
	if (t->count.entries > t->count.entries_max)
		return err_set(e, ERR_LIMIT, "more than %llu files",
			       (unsigned long long)t->count.entries_max);
	if (t->count.bytes > t->count.bytes_max)
		return err_set(e, ERR_LIMIT, "more than %llu bytes of files",
			       (unsigned long long)t->count.bytes_max);
	/* For a large file all at once: it is refused before it is written. */
	return storage_room_take(t->own, bytes > STORAGE_ROOM_MARGIN ? bytes : BLOCK, e);
}

/* A whiteout counts as an entry. The name must be free in this layer. */
static int layer_make_whiteout(struct layer_tree *t, const char *name, struct err *e)
{
	if (layer_tree_count(t, 0, e) < 0)
		return -1;
	return mknodat(t->dir, name, S_IFCHR, 0) < 0 ? member_fail(e, "hide", name) : 0;
}

/* For a directory of lower layers: owner, mode, attributes and time. */
static int layer_copy_metadata(struct layer_tree *t, const char *name, const struct layer_found *f,
			       struct err *e)
{
	int opened = layer_tree_open_lower(t, name, f, e);

	if (opened < 0)
		return -1;
	OWN_FD from = opened;
	OWN_FD to = openat(t->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return to < 0 ? member_fail(e, "open", name) : member_copy_dir(from, to, e);
}

/* A directory is removed with its content. */
int layer_tree_clear(struct layer_tree *t, const char *name, const struct layer_found *f,
		     struct err *e)
{
	if (!f->in_own)
		return 0;
	if (S_ISDIR(f->own.st_mode))
		rmtree(t->dir, name);
	else if (unlinkat(t->dir, name, 0) < 0)
		return member_fail(e, "replace", name);
	return 0;
}

/* Hide all lower entries in a directory that this layer has. The walk returns to where it was. */
static int layer_hide_in(struct layer_tree *t, const char *name, const struct layer_mask *mask,
			 struct err *e)
{
	int result;

	if (layer_go_down(t, name, mask, e) < 0)
		return -1;
	result = layer_tree_hide_all(t, e);
	return layer_go_up(t, e) < 0 ? -1 : result;
}

/* A directory that only lower layers have gets owner, mode, attributes and time from there. */
int layer_tree_mkdir(struct layer_tree *t, const char *name, const struct layer_found *f,
		     struct err *e)
{
	bool merged = !f->in_own && f->in_lower && S_ISDIR(f->lower.st_mode);

	if (f->in_own && S_ISDIR(f->own.st_mode))
		return 0;
	if (layer_tree_clear(t, name, f, e) < 0 || layer_tree_count(t, BLOCK, e) < 0)
		return -1;
	if (mkdirat(t->dir, name, 0755) < 0 || fchmodat(t->dir, name, 0755, 0) < 0)
		return member_fail(e, "make directory", name);
	if (merged)
		return layer_copy_metadata(t, name, f, e);
	/* This layer's former entry hid those of lower ones. */
	if (f->in_own && f->in_lower && S_ISDIR(f->lower.st_mode))
		return layer_hide_in(t, name, &f->mask, e);
	return 0;
}

/* An entry other than a directory hides the lower ones already. Two directories would be merged, so
 * each lower entry gets a whiteout. */
int layer_tree_hide_name(struct layer_tree *t, const char *name, struct err *e)
{
	struct layer_found f;

	if (layer_tree_look(t, name, &f, e) < 0)
		return -1;
	if (!f.in_lower)
		return 0;
	if (!f.in_own)
		return layer_make_whiteout(t, name, e);
	return S_ISDIR(f.own.st_mode) && S_ISDIR(f.lower.st_mode)
		       ? layer_hide_in(t, name, &f.mask, e)
		       : 0;
}

/* ---- walking: from directory to directory */

#define WALK_BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define LINKS_MAX 40
#define REST_MAX (2 * TAR_HEAD_PATH_MAX)

/* Where a link leads, of this layer or of a lower one. */
static int layer_read_link(const struct layer_tree *t, const char *name,
			   const struct layer_found *f, char ret[TAR_HEAD_PATH_MAX], struct err *e)
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

/* A walk: the rest of the path, and how many links were followed. A rest longer than the buffer is
 * refused. */
struct layer_walk {
	char rest[REST_MAX];
	unsigned links;
};

/* Put the target in front of the rest of the path. An absolute target begins at the top again, as
 * in a cell. */
static int layer_follow(struct layer_tree *t, struct layer_walk *w, const char *name,
			const struct layer_found *f, struct err *e)
{
	char target[TAR_HEAD_PATH_MAX], all[REST_MAX];
	int n;

	if (++w->links > LINKS_MAX)
		return err_set(e, ERR_INVALID, "too many links on the way to %.150s", name);
	if (layer_read_link(t, name, f, target, e) < 0)
		return -1;
	n = snprintf(all, sizeof(all), "%s/%s", target, w->rest);
	if (n < 0 || (size_t)n >= sizeof(all))
		return err_set(e, ERR_LIMIT, "a path of over 4095 bytes");
	memcpy(w->rest, all, (size_t)n + 1);
	return target[0] == '/' ? layer_go_top(t, e) : 0;
}

/* Take one component of the path. A missing directory is made, and a whiteout gives way to it. */
static int layer_step(struct layer_tree *t, struct layer_walk *w, const char *name, struct err *e)
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
		return layer_follow(t, w, name, &f, e);
	if (st != NULL && !S_ISDIR(st->st_mode) && !layer_tree_is_whiteout(st))
		return err_set(e, ERR_INVALID, "%.150s is not a directory", name);
	if (layer_tree_mkdir(t, name, &f, e) < 0)
		return -1;
	return layer_go_down(t, name, &f.mask, e);
}

/* The rest gets shorter with each step. Only links make it longer, and LINKS_MAX bounds them. */
static int layer_walk_path(struct layer_tree *t, struct layer_walk *w, struct err *e)
{
	char name[NAME_MAX + 1];

	while (w->rest[0] != '\0') {
		size_t n = strcspn(w->rest, "/"), skip = n + strspn(w->rest + n, "/");

		if (n > NAME_MAX)
			return err_set(e, ERR_LIMIT, "a name of over 255 bytes");
		memcpy(name, w->rest, n);
		name[n] = '\0';
		memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
		if (n > 0 && layer_step(t, w, name, e) < 0)
			return -1;
	}
	return 0;
}

/* Archives come directory by directory: most often we are there. */
static int layer_go(struct layer_tree *t, const char *path, size_t n, struct err *e)
{
	struct layer_walk w = { .links = 0 };

	if (strlen(t->path) == n && memcmp(t->path, path, n) == 0)
		return 0;
	memcpy(w.rest, path, n);
	w.rest[n] = '\0';
	return layer_go_top(t, e) < 0 ? -1 : layer_walk_path(t, &w, e);
}

int layer_tree_enter(struct layer_tree *t, const char *path, struct err *e)
{
	return layer_go(t, path, strlen(path), e);
}

int layer_tree_parent(struct layer_tree *t, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');

	*ret_name = slash == NULL ? path : slash + 1;
	if (strlen(*ret_name) > NAME_MAX)
		return err_set(e, ERR_LIMIT, "a name of over 255 bytes");
	return layer_go(t, path, slash == NULL ? 0 : (size_t)(slash - path), e);
}

/* ---- all names of lower layers */

/* Hide each name of one lower directory. */
static int layer_hide_names(struct layer_tree *t, DIR *d, struct err *e)
{
	struct dirent *entry;
	int result = 0;

	while (result == 0 && (entry = readdir(d)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = layer_tree_hide_name(t, entry->d_name, e);
	return result;
}

/* Other layers of the mask may have more names, so each layer is listed. */
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
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC, WALK_BENEATH);
		d = fd < 0 ? NULL : fdopendir(fd);
		if (d == NULL) {
			fd_close(fd);
			return err_sys(e, "list %.150s", t->path);
		}
		result = layer_hide_names(t, d, e);
		(void)closedir(d);
	}
	return result;
}
