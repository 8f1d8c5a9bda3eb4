/* op_root.c - root images: a whole template as one erofs file, which a virtual machine has as its
 * read-only disk. It is a layer like others, with one file in its directory, so it is whole or not
 * there, and found and removed as layers are. */
#include "storage/op_root.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/wire/exit_codes.h"
#include "storage/erofs_image.h"
#include "storage/layer_make.h"
#include "storage/root_walk.h"
#include "storage/storage_ops.h"
#include "storage/storage_room.h"

#define IMAGE "root.erofs"
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/* In the worker, and before. */
struct root_making {
	const struct storage_root *r;
	int base[STORAGE_HOST_MAX]; /* owned. -1: none */
};

/* Layers with the place, the highest first, and the base. The worker keeps all open. */
static int root_open_place(const struct root_making *m, const int *layers, unsigned place,
			   struct root_place *ret, struct err *e)
{
	char number[8];

	*ret = (struct root_place){ .name = place == 0 ? NULL : m->r->at[place] };
	(void)snprintf(number, sizeof(number), "%u", place);
	for (unsigned i = m->r->nfrom; i-- > 0;) {
		int fd = openat(layers[i], number, DIR_FLAGS | O_CLOEXEC);

		if (fd >= 0)
			ret->dirs[ret->n++] = fd;
		else if (errno != ENOENT)
			return err_sys(e, "open a layer");
	}
	ret->has_base = m->base[place] >= 0;
	if (ret->has_base)
		ret->dirs[ret->n++] = m->base[place];
	return 0;
}

/* Places without any directory are left out. The names in r->at have no gaps. */
static int root_open_places(const struct root_making *m, const int *layers, struct root_place *ret,
			    unsigned *ret_n, struct err *e)
{
	unsigned n = 0;

	for (unsigned place = 0; place < STORAGE_HOST_MAX; place++) {
		if (place > 0 && m->r->at[place][0] == '\0')
			break;
		if (root_open_place(m, layers, place, &ret[n], e) < 0)
			return -1;
		n += ret[n].n > 0;
	}
	*ret_n = n;
	return n == 0 ? err_set(e, ERR_INVALID, "the layers have no root directory") : 0;
}

/* Files are copied during the walk. The rest of the image follows. */
static int root_work(void *arg, int top, const int *layers, struct storage_reply *reply,
		     struct err *e)
{
	const struct root_making *m = arg;
	static struct root_place places[STORAGE_HOST_MAX]; /* large */
	OWN_FD fd = openat(top, IMAGE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	struct root_walk w = { .copy = { .to = fd, .bytes_max = UINT64_MAX },
			       .ids = storage_jail_ids(),
			       .bytes_max = m->r->bytes_max,
			       .next_block = 1,
			       .places = places };
	int result;

	if (fd < 0)
		return storage_ops_fail(e, "make the root image");
	if (root_open_places(m, layers, places, &w.nplaces, e) < 0)
		return -1;
	storage_room_keep(m->r->reserve_percent);
	erofs_tree_init(&w.tree);
	result = root_walk(&w, e);
	if (result == 0)
		result = erofs_image_write(&w.tree, fd, w.next_block, m->r->bytes_max,
					   &reply->bytes, e);
	reply->entries = 1;
	erofs_tree_release(&w.tree);
	if (result == 0 && fsync(fd) < 0)
		return storage_ops_fail(e, "write the root image to disk");
	return result;
}

/* run->fd goes along with the answer. */
static int root_open_image(const char *layer, struct storage_run *run, struct err *e)
{
	OWN_FD layers = storage_ops_open_layers(e);
	char path[STORAGE_ID_MAX + sizeof(IMAGE)];

	if (layers < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/" IMAGE, layer);
	run->fd = openat(layers, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (run->fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "there is no root image %.60s", layer);
	return run->fd < 0 ? err_sys(e, "open the root image") : 0;
}

int op_root_make(struct storage_run *run, struct err *e)
{
	const struct storage_root *r = &run->r->root;
	struct root_making m = { .r = r };
	const struct layer_make make = { .id = r->layer,
					 .lower = r->from,
					 .nlower = r->nfrom,
					 .read = m.base,
					 .nread = COUNT(m.base),
					 .synced = true,
					 .work = root_work,
					 .arg = &m };
	int result = storage_base_open(r->flags, r->base, m.base, e);

	if (result == 0)
		result = layer_make(run, &make, e);
	io_close_all(m.base, COUNT(m.base));
	return result < 0 ? -1 : root_open_image(r->layer, run, e);
}

int op_root_open(struct storage_run *run, struct err *e)
{
	return root_open_image(run->r->remove.layer, run, e);
}

/* ---- the program that makes one image, for `cordon run` */

enum { IMAGE_FD = 3, DIRS_FD };

/* at[0] stays empty, for "/". */
static int root_tool_read_word(const char *word, uint64_t *ret_max, char at[][STORAGE_PLACE_MAX],
			       unsigned *ret_n, struct err *e)
{
	char text[STORAGE_HOST_MAX * STORAGE_PLACE_MAX], *left = text, *name;
	unsigned n = 1; /* "/" */

	str_copy(text, word);
	/* NOLINTNEXTLINE(cert-err34-c): 19 digits fit */
	if (sscanf(strsep(&left, ":"), "%19" SCNu64, ret_max) != 1)
		return err_set(e, ERR_INVALID, "no size of an image");
	for (; (name = strsep(&left, ":")) != NULL; n++) {
		if (n >= STORAGE_HOST_MAX)
			return err_set(e, ERR_INVALID, "too many places");
		str_copy(at[n], name);
	}
	*ret_n = n;
	return 0;
}

/* Each place is one directory of the machine, with owners as they are. */
static int root_tool_make(uint64_t max, char at[][STORAGE_PLACE_MAX], unsigned n, struct err *e)
{
	static struct root_place places[STORAGE_HOST_MAX]; /* large */
	struct root_walk w = { .copy = { .to = IMAGE_FD, .bytes_max = UINT64_MAX },
			       .bytes_max = max,
			       .next_block = 1,
			       .places = places,
			       .nplaces = n };
	uint64_t bytes;
	int result;

	for (unsigned i = 0; i < n; i++)
		places[i] = (struct root_place){ .name = i == 0 ? NULL : at[i],
						 .n = 1,
						 .dirs = { DIRS_FD + (int)i },
						 .has_base = true };
	erofs_tree_init(&w.tree);
	result = root_walk(&w, e);
	if (result == 0)
		result = erofs_image_write(&w.tree, IMAGE_FD, w.next_block, max, &bytes, e);
	erofs_tree_release(&w.tree);
	return result;
}

int image_tool_main(const char *word)
{
	char at[STORAGE_HOST_MAX][STORAGE_PLACE_MAX] = { 0 };
	struct err e = { 0 };
	uint64_t max = 0;
	unsigned n = 0;

	if (root_tool_read_word(word, &max, at, &n, &e) == 0 && root_tool_make(max, at, n, &e) == 0)
		return 0;
	(void)fprintf(stderr, "cordon: root image: %s\n", e.msg);
	return EXIT_CORDON;
}
