#include "arrange_file.h"

#include <fcntl.h>
#include <string.h>

#include "io.h"
#include "member_make.h"

/* The attributes that a file of a lower layer has, as ids of the cell. */
static void take_attributes(const struct arranging *a, const struct stat *st, struct arranged *ret)
{
	ret->exists = true;
	ret->mode = st->st_mode & 07777;
	ret->uid = a->ids->single ? 0 : st->st_uid - a->ids->shift;
	ret->gid = a->ids->single ? 0 : st->st_gid - a->ids->shift;
}

static int open_it(struct arranging *a, const char *path, struct stat *ret_st, int *ret_fd,
		   struct err *e)
{
	struct layer_found f;
	const char *name;

	*ret_fd = -1;
	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &f, e) < 0)
		return -1;
	if (f.in_own && S_ISREG(f.own.st_mode)) {
		*ret_st = f.own;
		*ret_fd = openat(a->tree->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		return *ret_fd < 0 ? err_sys(e, "open %s", path) : 0;
	}
	if (f.in_own || !f.in_lower || !S_ISREG(f.lower.st_mode))
		return 0;
	*ret_st = f.lower;
	*ret_fd = layer_tree_open_lower(a->tree, name, &f, e);
	return *ret_fd < 0 ? -1 : 0;
}

int arrange_read(struct arranging *a, const char *path, mode_t mode, struct arranged *ret,
		 struct err *e)
{
	struct stat st = { 0 };
	int opened;
	ssize_t n;

	memset(ret, 0, sizeof(*ret));
	ret->mode = mode;
	buf_init(&ret->text, ARRANGE_FILE_MAX);
	if (open_it(a, path, &st, &opened, e) < 0)
		return -1;
	OWN_FD fd = opened;
	if (fd < 0)
		return 0;
	if (st.st_size > (off_t)ARRANGE_FILE_MAX)
		return err_set(e, ERR_INVALID, "/%s of the image is larger than 8 MiB", path);
	take_attributes(a, &st, ret);
	if (st.st_size == 0)
		return 0;
	if (buf_reserve(&ret->text, (size_t)st.st_size, e) == NULL)
		return -1;
	n = read(fd, ret->text.data, (size_t)st.st_size);
	if (n < 0)
		return err_sys(e, "read %s", path);
	buf_commit(&ret->text, (size_t)n);
	return 0;
}

void arrange_release(struct arranged *f)
{
	buf_release(&f->text);
}

static int set_owner(const struct arranging *a, int fd, uint32_t uid, uint32_t gid)
{
	return a->ids->single ? 0 : fchown(fd, uid + a->ids->shift, gid + a->ids->shift);
}

int arrange_write(struct arranging *a, const char *path, const struct arranged *f, const void *text,
		  size_t len, struct err *e)
{
	struct layer_found found;
	const char *name;

	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &found, e) < 0 ||
	    layer_tree_clear(a->tree, name, &found, e) < 0 || layer_tree_count(a->tree, len, e) < 0)
		return -1;
	OWN_FD fd = openat(a->tree->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			   0600);
	if (fd < 0)
		return member_fail(e, "make", path);
	if (io_write_all(fd, text, len, e) < 0)
		return err_wrap(e, "%s", path);
	if (set_owner(a, fd, f->uid, f->gid) < 0 || fchmod(fd, f->mode) < 0)
		return member_fail(e, "make", path);
	return 0;
}

int arrange_put(struct arranging *a, const char *path, mode_t mode, const char *text, struct err *e)
{
	const struct arranged f = { .mode = mode };

	return arrange_write(a, path, &f, text, strlen(text), e);
}

int arrange_exists(struct arranging *a, const char *path, bool *ret, struct err *e)
{
	struct layer_found f;
	const char *name;

	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &f, e) < 0)
		return -1;
	*ret = f.in_own ? !layer_tree_is_whiteout(&f.own) : f.in_lower;
	return 0;
}

/* only_new: what is there stays, whatever it is. */
static int make_dir(struct arranging *a, const char *path, mode_t mode, uint32_t owner,
		    bool only_new, struct err *e)
{
	const struct stat *st;
	struct layer_found f;
	const char *name;

	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &f, e) < 0)
		return -1;
	st = f.in_own ? &f.own : &f.lower;
	if ((f.in_own || f.in_lower) && (only_new || S_ISDIR(st->st_mode)))
		return 0;
	if (layer_tree_mkdir(a->tree, name, &f, e) < 0)
		return -1;
	OWN_FD fd = openat(a->tree->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || set_owner(a, fd, owner, owner) < 0 || fchmod(fd, mode) < 0)
		return member_fail(e, "make directory", path);
	return 0;
}

int arrange_dir(struct arranging *a, const char *path, mode_t mode, uint32_t owner, struct err *e)
{
	return make_dir(a, path, mode, owner, true, e);
}

int arrange_mount_point(struct arranging *a, const char *path, mode_t mode, struct err *e)
{
	return make_dir(a, path, mode, 0, false, e);
}

int arrange_link(struct arranging *a, const char *path, const char *target, struct err *e)
{
	const char *name = strrchr(path, '/');
	bool exists;

	if (arrange_exists(a, path, &exists, e) < 0)
		return -1;
	if (exists)
		return 0;
	if (layer_tree_count(a->tree, 0, e) < 0)
		return -1;
	return symlinkat(target, a->tree->dir, name == NULL ? path : name + 1) < 0
		       ? member_fail(e, "make link", path)
		       : 0;
}
