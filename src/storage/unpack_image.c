/* unpack_image.c - theory of operation
 *
 * Names are made relative to the root directory. ".." and more than LAYER_TREE_DEPTH_MAX levels are
 * refused. Each member is made in its directory of this layer, which layer_tree.h finds or makes.
 *
 * ".wh.NAME" and ".wh..wh..opq" are not made: they become whiteouts of entries of lower layers. An
 * entry of this layer with the same name wins, before or after, and hides those below it.
 *
 * Devices are left out: cells have their own. A character device 0:0 is refused, because in a layer
 * it would be a whiteout. Times of directories are set at the end, as they change with every entry.
 */
#include "storage/unpack_image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/kernel.h"
#include "lib/oci/oci_manifest.h"
#include "storage/member_make.h"

#define DIR_TIMES_MAX (64U << 20) /* bytes. Directories beyond keep another time */
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

struct image_unpacking {
	struct layer_tree tree;
	struct tar_reader *tar;
	struct tar_member m;
	const struct storage_ids *ids;
	bool whole;
	struct buf dir_times; /* struct timespec and path with NUL, one after the other */
};

/* ---- names */

/* Make a name relative, in place. "" is the root directory. */
static int image_clean(char *path, struct err *e)
{
	const char *from = path;
	unsigned parts = 0;
	char *to = path;

	while (*from != '\0') {
		size_t n = strcspn(from, "/");

		if (n == 2 && memcmp(from, "..", 2) == 0)
			return err_set(e, ERR_INVALID, "tar: a name with '..' in it: %.150s", path);
		if (n > NAME_MAX || (n > 0 && ++parts > LAYER_TREE_DEPTH_MAX))
			return err_set(e, ERR_LIMIT, "tar: a name of over 255 bytes or %d levels",
				       LAYER_TREE_DEPTH_MAX);
		if (n > 0 && !(n == 1 && *from == '.')) {
			if (to != path)
				*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
		from += n + (from[n] == '/');
	}
	*to = '\0';
	return 0;
}

/* The strictest meaning that a part of the path has, the last one left out. */
static enum oci_whiteout image_parents_of(const char *path)
{
	enum oci_whiteout found = OCI_WHITEOUT_NONE;
	char name[NAME_MAX + 1];
	const char *unused;

	for (const char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
		enum oci_whiteout one;

		memcpy(name, path, (size_t)(slash - path));
		name[slash - path] = '\0';
		one = oci_whiteout_of(name, &unused);
		if (one == OCI_WHITEOUT_IGNORED)
			return one;
		if (one != OCI_WHITEOUT_NONE)
			found = OCI_WHITEOUT_BAD;
	}
	return found;
}

/* ---- whiteouts */

/* 1: the member was a whiteout. 0: it is an entry. */
static int image_take_whiteout(struct image_unpacking *u, struct err *e)
{
	const char *path = u->m.head.path, *slash = strrchr(path, '/'), *hidden = "", *name;
	enum oci_whiteout parents = image_parents_of(path);
	enum oci_whiteout what = oci_whiteout_of(slash == NULL ? path : slash + 1, &hidden);

	if (parents == OCI_WHITEOUT_IGNORED || what == OCI_WHITEOUT_IGNORED)
		return 1;
	if (parents != OCI_WHITEOUT_NONE || what == OCI_WHITEOUT_BAD)
		return err_set(e, ERR_INVALID, "tar: malformed whiteout: %.150s", path);
	if (what == OCI_WHITEOUT_NONE)
		return 0;
	if (layer_tree_parent(&u->tree, path, &name, e) < 0)
		return -1;
	if (what == OCI_WHITEOUT_OPAQUE)
		return layer_tree_hide_all(&u->tree, e) < 0 ? -1 : 1;
	return layer_tree_hide_name(&u->tree, hidden, e) < 0 ? -1 : 1;
}

/* ---- directories */

/* Note the time of the directory where the tree is. */
static int image_keep_time(struct image_unpacking *u, struct err *e)
{
	const struct timespec time = member_time(&u->m);
	size_t n = strlen(u->tree.path) + 1;

	if (u->dir_times.len + sizeof(time) + n > DIR_TIMES_MAX)
		return 0;
	if (buf_add(&u->dir_times, &time, sizeof(time), e) < 0)
		return -1;
	return buf_add(&u->dir_times, u->tree.path, n, e);
}

static void image_set_dir_times(const struct image_unpacking *u)
{
	for (size_t at = 0; at < u->dir_times.len;) {
		struct timespec times[2] = { { 0, UTIME_OMIT } };
		const char *path;

		memcpy(&times[1], u->dir_times.data + at, sizeof(times[1]));
		path = (const char *)u->dir_times.data + at + sizeof(times[1]);
		at += sizeof(times[1]) + strlen(path) + 1;
		OWN_FD fd = kernel_openat2(u->tree.own, path[0] == '\0' ? "." : path,
					   O_RDONLY | O_DIRECTORY | O_CLOEXEC, BENEATH);
		if (fd >= 0)
			IGNORED(futimens(fd, times), "a time that is wrong does no harm");
	}
}

/* Go into the directory that the member describes. */
static int image_make_directory(struct image_unpacking *u, const char *name,
				const struct layer_found *f, struct err *e)
{
	if (layer_tree_mkdir(&u->tree, name, f, e) < 0 ||
	    layer_tree_enter(&u->tree, u->m.head.path, e) < 0 ||
	    member_set_dir(u->tree.dir, &u->m, u->ids, e) < 0)
		return -1;
	return image_keep_time(u, e);
}

/* The member "." or "/" describes the root directory, which exists. */
static int image_set_root(struct image_unpacking *u, struct err *e)
{
	if (u->m.head.type != TAR_HEAD_DIR)
		return err_set(e, ERR_INVALID, "tar: a member without a name");
	if (layer_tree_enter(&u->tree, "", e) < 0 ||
	    member_set_dir(u->tree.dir, &u->m, u->ids, e) < 0)
		return -1;
	return image_keep_time(u, e);
}

/* ---- hard links */

/* The file is only in a lower layer: a link needs a copy in this one. */
static int image_copy_up(struct image_unpacking *u, const char *name, const struct layer_found *f,
			 struct err *e)
{
	char target[TAR_HEAD_PATH_MAX];
	ssize_t n;
	int opened;

	if (layer_tree_count(&u->tree, (uint64_t)f->lower.st_size, e) < 0)
		return -1;
	if (S_ISLNK(f->lower.st_mode)) {
		n = layer_tree_read_lower(&u->tree, name, f, target, e);
		if (n < 0)
			return -1;
		return symlinkat(target, u->tree.dir, name) < 0 ? member_fail(e, "copy", name) : 0;
	}
	opened = layer_tree_open_lower(&u->tree, name, f, e);
	if (opened < 0)
		return -1;
	OWN_FD from = opened;
	return member_copy(from, &f->lower, u->tree.dir, name, e);
}

/* Return a descriptor of the directory in which the link's source is. */
static int image_find_source(struct image_unpacking *u, const char **ret_name, struct stat *ret_st,
			     struct err *e)
{
	const char *link = u->m.head.link;
	struct layer_found f;
	int dir;

	if (layer_tree_parent(&u->tree, link, ret_name, e) < 0 ||
	    layer_tree_look(&u->tree, *ret_name, &f, e) < 0)
		return -1;
	if (!f.in_own && f.in_lower && (S_ISREG(f.lower.st_mode) || S_ISLNK(f.lower.st_mode)) &&
	    (image_copy_up(u, *ret_name, &f, e) < 0 ||
	     layer_tree_look(&u->tree, *ret_name, &f, e) < 0))
		return -1;
	if (!f.in_own || S_ISDIR(f.own.st_mode) || layer_tree_is_whiteout(&f.own))
		return err_set(e, ERR_INVALID, "tar: a hard link to what is not there: %.120s",
			       link);
	*ret_st = f.own;
	dir = fcntl(u->tree.dir, F_DUPFD_CLOEXEC, 3);
	return dir < 0 ? err_sys(e, "duplicate a descriptor") : dir;
}

/* The source may be in lower layers only. image_find_source() copies it up then. */
static int image_make_hard_link(struct image_unpacking *u, struct err *e)
{
	const char *source, *name;
	struct layer_found f;
	struct stat st = { 0 };
	int found;

	if (image_clean(u->m.head.link, e) < 0)
		return -1;
	if (u->m.head.link[0] == '\0')
		return err_set(e, ERR_INVALID, "tar: a hard link without a target: %.150s",
			       u->m.head.path);
	found = image_find_source(u, &source, &st, e);
	if (found < 0)
		return -1;
	OWN_FD dir = found;
	if (layer_tree_parent(&u->tree, u->m.head.path, &name, e) < 0 ||
	    layer_tree_look(&u->tree, name, &f, e) < 0)
		return -1;
	if (f.in_own && f.own.st_ino == st.st_ino && f.own.st_dev == st.st_dev)
		return 0; /* the same file already */
	if (layer_tree_clear(&u->tree, name, &f, e) < 0 || layer_tree_count(&u->tree, 0, e) < 0)
		return -1;
	return linkat(dir, source, u->tree.dir, name, 0) < 0
		       ? member_fail(e, "make hard link", u->m.head.path)
		       : 0;
}

/* ---- members */

static int image_make_entry(struct image_unpacking *u, struct err *e)
{
	const struct tar_head *h = &u->m.head;
	struct layer_found f;
	const char *name;

	if (layer_tree_parent(&u->tree, h->path, &name, e) < 0 ||
	    layer_tree_look(&u->tree, name, &f, e) < 0)
		return -1;
	if (h->type == TAR_HEAD_DIR)
		return image_make_directory(u, name, &f, e);
	if (layer_tree_clear(&u->tree, name, &f, e) < 0 ||
	    layer_tree_count(&u->tree, member_bytes(&u->m), e) < 0)
		return -1;
	if (h->type == TAR_HEAD_SYMLINK)
		return member_make_symlink(u->tree.dir, name, &u->m, u->ids, e);
	if (h->type == TAR_HEAD_FIFO)
		return member_make_fifo(u->tree.dir, name, &u->m, u->ids, e);
	return member_make_file(u->tree.dir, name, &u->m, u->tar, u->ids, e);
}

static int image_take_member(struct image_unpacking *u, struct err *e)
{
	const struct tar_head *h = &u->m.head;
	int rc;

	if (image_clean(u->m.head.path, e) < 0)
		return -1;
	if (h->path[0] == '\0')
		return image_set_root(u, e);
	rc = u->whole ? 0 : image_take_whiteout(u, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (h->type == TAR_HEAD_CHAR && h->major == 0 && h->minor == 0)
		return err_set(e, ERR_INVALID, "tar: a device 0:0: %.150s", h->path);
	if (h->type == TAR_HEAD_CHAR || h->type == TAR_HEAD_BLOCK_DEVICE || h->type == 'V')
		return 0;
	if (h->type == TAR_HEAD_HARDLINK)
		return image_make_hard_link(u, e);
	if (strchr("0256", h->type) == NULL)
		return err_set(e, ERR_UNSUPPORTED, "tar: a member of unknown type 0x%02x: %.120s",
			       (unsigned char)h->type, h->path);
	return image_make_entry(u, e);
}

static int image_unpack_all(struct image_unpacking *u, struct err *e)
{
	int rc;

	while ((rc = tar_reader_next(u->tar, &u->m, e)) == 0)
		if (image_take_member(u, e) < 0)
			return -1;
	if (rc > 0)
		image_set_dir_times(u);
	return rc < 0 ? -1 : 0;
}

int unpack_image(struct stream_in *in, struct unpack_image *job, struct err *e)
{
	static struct image_unpacking u; /* large. A worker unpacks one */
	int result;

	memset(&u, 0, sizeof(u));
	u.ids = &job->ids;
	u.whole = job->whole;
	buf_init(&u.dir_times, DIR_TIMES_MAX);
	u.tar = tar_reader_new(in, e);
	if (u.tar == NULL)
		return -1;
	result = layer_tree_init(&u.tree, job->top, job->lower, job->nlower, e);
	u.tree.count = job->count;
	if (result == 0)
		result = image_unpack_all(&u, e);
	job->count = u.tree.count;
	layer_tree_release(&u.tree);
	tar_reader_free(u.tar);
	buf_release(&u.dir_times);
	return result;
}
