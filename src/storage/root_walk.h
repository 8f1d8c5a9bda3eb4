/* root_walk.h - goes through a stack of directories as a cell of it would see them, and makes the
 * tree of an erofs image. The content of files is written to the image on the way. For untrusted
 * content and names. In a worker. Called by op_root.c.
 *
 * The highest directory with a name decides about it. A whiteout (a character device 0:0) hides it.
 * A directory is merged with those below it, down to the first where the name is something else.
 * Names are visited in the order of their bytes, so the same files give the same image. */
#pragma once

#include "lib/wire/storage_msg.h"
#include "storage/erofs_image.h"
#include "storage/sparse_copy.h"
#include "storage/storage_jail.h"

#define ROOT_WALK_STACK_MAX (STORAGE_STACK_MAX + 1)

/* The visible directories at one place: "/" or a directory in it. */
struct root_place {
	const char *name; /* in "/". NULL: "/" itself */
	unsigned n;
	int dirs[ROOT_WALK_STACK_MAX]; /* borrowed, the highest first */
	bool has_base;		       /* the last one is the base, whose owners are not shifted */
};

struct root_walk {
	struct erofs_tree tree;
	struct sparse_copy copy; /* to the image */
	struct storage_ids ids;
	uint64_t bytes_max;  /* of the image */
	uint64_t next_block; /* the image's first free one */
	const struct root_place *places;
	unsigned nplaces; /* "/" first */
};

/* The caller has set copy, ids, bytes_max, next_block and places, and initialized the tree, which
 * it releases also after an error. */
int root_walk(struct root_walk *w, struct err *e) MUST_USE;
