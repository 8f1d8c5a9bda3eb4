#include "layer_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"
#include "member_make.h"
#include "storage_room.h"
#include "rmtree.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

#define BLOCK 4096U

/* ---- the directory where we are */

static int open_dir(struct layer_tree *t, struct err *e)
{
	fd_close(TAKE_FD(t->dir));
	t->dir = kernel_openat2(t->own, t->path[0] == '\0' ? "." : t->path,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC, BENEATH);
	return t->dir < 0 ? member_fail(e, "open", t->path) : 0;
}

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
	return open_dir(t, e);
}

void layer_tree_release(struct layer_tree *t)
{
	fd_close(TAKE_FD(t->dir));
}

int layer_go_top(struct layer_tree *t, struct err *e)
{
	t->depth = 0;
	t->path[0] = '\0';
	return open_dir(t, e);
}

int layer_go_up(struct layer_tree *t, struct err *e)
{
	if (t->depth == 0)
		return 0;
	t->depth--;
	t->path[t->end[t->depth]] = '\0';
	return open_dir(t, e);
}

/* Into a directory that this layer has. */
int layer_go_down(struct layer_tree *t, const char *name, const struct layer_mask *mask,
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
	return open_dir(t, e);
}

/* ---- looking */

bool layer_tree_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static int join(const struct layer_tree *t, const char *name, char ret[2 * TAR_HEAD_PATH_MAX])
{
	return snprintf(ret, 2 * (size_t)TAR_HEAD_PATH_MAX, "%s%s%s", t->path,
			t->path[0] == '\0' ? "" : "/", name);
}

static bool has(const struct layer_mask *m, unsigned i)
{
	return (m->bits[i / 64] >> (i % 64) & 1) != 0;
}

/* From the top down, until an entry hides what is below it. */
static int look_lower(const struct layer_tree *t, const char *name, struct layer_found *ret,
		      struct err *e)
{
	char path[2 * TAR_HEAD_PATH_MAX];
	struct stat st;

	(void)join(t, name, path);
	for (unsigned i = t->nlower; i-- > 0;) {
		if (!has(&t->mask[t->depth], i))
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

int layer_tree_look(const struct layer_tree *t, const char *name, struct layer_found *ret,
		    struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	if (fstatat(t->dir, name, &ret->own, AT_SYMLINK_NOFOLLOW) == 0)
		ret->in_own = true;
	else if (errno != ENOENT)
		return member_fail(e, "look for", name);
	return look_lower(t, name, ret, e);
}

int layer_tree_open_lower(const struct layer_tree *t, const char *name, const struct layer_found *f,
			  struct err *e)
{
	char path[2 * TAR_HEAD_PATH_MAX];
	int fd;

	(void)join(t, name, path);
	fd = kernel_openat2(t->lower[f->layer], path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, BENEATH);
	return fd < 0 ? member_fail(e, "open", path) : fd;
}

ssize_t layer_tree_read_lower(const struct layer_tree *t, const char *name,
			      const struct layer_found *f, char ret[TAR_HEAD_PATH_MAX],
			      struct err *e)
{
	char path[2 * TAR_HEAD_PATH_MAX];
	ssize_t n;

	(void)join(t, name, path);
	n = readlinkat(t->lower[f->layer], path, ret, TAR_HEAD_PATH_MAX - 1);
	if (n < 0)
		return member_fail(e, "read the link", path);
	ret[n] = '\0';
	return n;
}

/* ---- making and hiding */

#define LOOK_BYTES (16U << 20)

/* Others write, too: so the reserve is looked at while the tree grows. */
static int check_room(struct layer_tree *t, uint64_t bytes, struct err *e)
{
	if (t->count.reserve_percent == 0 || t->count.bytes - t->count.looked_at < LOOK_BYTES)
		return 0;
	t->count.looked_at = t->count.bytes;
	return storage_room_check_bytes(t->own, t->count.reserve_percent, bytes, e);
}

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
	return check_room(t, bytes, e);
}

static int make_whiteout(struct layer_tree *t, const char *name, struct err *e)
{
	if (layer_tree_count(t, 0, e) < 0)
		return -1;
	return mknodat(t->dir, name, S_IFCHR, 0) < 0 ? member_fail(e, "hide", name) : 0;
}

/* Of a directory that lower layers have: owner, mode, attributes and time. */
static int copy_metadata(struct layer_tree *t, const char *name, const struct layer_found *f,
			 struct err *e)
{
	int opened = layer_tree_open_lower(t, name, f, e);

	if (opened < 0)
		return -1;
	OWN_FD from = opened;
	OWN_FD to = openat(t->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return to < 0 ? member_fail(e, "open", name) : member_copy_dir(from, to, e);
}

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

static int hide_in(struct layer_tree *t, const char *name, const struct layer_mask *mask,
		   struct err *e)
{
	int result;

	if (layer_go_down(t, name, mask, e) < 0)
		return -1;
	result = layer_tree_hide_all(t, e);
	return layer_go_up(t, e) < 0 ? -1 : result;
}

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
		return copy_metadata(t, name, f, e);
	/* What this layer had there hid what lower ones have. */
	if (f->in_own && f->in_lower && S_ISDIR(f->lower.st_mode))
		return hide_in(t, name, &f->mask, e);
	return 0;
}

int layer_tree_hide_name(struct layer_tree *t, const char *name, struct err *e)
{
	struct layer_found f;

	if (layer_tree_look(t, name, &f, e) < 0)
		return -1;
	if (!f.in_lower)
		return 0;
	if (!f.in_own)
		return make_whiteout(t, name, e);
	return S_ISDIR(f.own.st_mode) && S_ISDIR(f.lower.st_mode) ? hide_in(t, name, &f.mask, e)
								  : 0;
}
