/* layer_tree.h - the tree of a layer being made, above the layers below it: finds and makes
 * directories as a process in the merged tree would see them. For untrusted names. Called by
 * unpack_image.c and op_arrange.c, in a worker.
 *
 * A path is walked one component at a time. Links are followed as in a cell, whose root directory
 * is the top of the tree: none leads out of it. A directory that only lower layers have is made in
 * this one, with the same owner, mode and time. No path that contains a link is ever given to the
 * kernel.
 *
 * Invariant: a name of a lower layer can be seen exactly if this layer has no entry of that name.
 * So hiding is writing a whiteout (a character device 0:0), and each entry that an opaque directory
 * hides gets one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/wire/tar_head.h"

#define LAYER_TREE_LOWER_MAX 128
#define LAYER_TREE_DEPTH_MAX 256

/* Lower layers in which a directory is: a bit for each. */
struct layer_mask {
	uint64_t bits[LAYER_TREE_LOWER_MAX / 64];
};

/* The events told while a tree grows. */
struct layer_count {
	uint64_t bytes, entries;
	uint64_t bytes_max, entries_max;
};

struct layer_tree {
	int own;	  /* borrowed: the top of this layer */
	const int *lower; /* borrowed: tops of those below, the lowest first */
	unsigned nlower;
	struct layer_count count;
	/* Where we are: a directory of this layer without links in its path. */
	char path[TAR_HEAD_PATH_MAX]; /* "" for the top */
	unsigned depth;
	size_t end[LAYER_TREE_DEPTH_MAX + 1]; /* of path at each depth */
	struct layer_mask mask[LAYER_TREE_DEPTH_MAX + 1];
	int dir; /* owned: descriptor of it */
};

struct layer_found {
	bool in_own, in_lower;
	struct stat own, lower; /* of the entry itself, not of the target of a link */
	unsigned layer;		/* which lower one has it */
	struct layer_mask mask; /* of a directory: lower layers that it is merged of */
};

int layer_tree_init(struct layer_tree *t, int own, const int *lower, unsigned nlower,
		    struct err *e) MUST_USE;
void layer_tree_release(struct layer_tree *t);

/* Go to the directory of a path (relative to the top, no "..") and make missing directories: 0755,
 * of root. *ret_name: the last component, a part of path. ERR_INVALID: a part of the path is not a
 * directory. */
int layer_tree_parent(struct layer_tree *t, const char *path, const char **ret_name,
		      struct err *e) MUST_USE;
/* Go to that directory itself. */
int layer_tree_enter(struct layer_tree *t, const char *path, struct err *e) MUST_USE;

/* Look for a name in the directory where we are. A whiteout of this layer counts as in_own. */
int layer_tree_look(const struct layer_tree *t, const char *name, struct layer_found *ret,
		    struct err *e) MUST_USE;
bool layer_tree_is_whiteout(const struct stat *st);

/* Make way for an entry other than a directory. */
int layer_tree_clear(struct layer_tree *t, const char *name, const struct layer_found *f,
		     struct err *e) MUST_USE;
/* Make a directory where we are, unless there is one. Entries of lower layers stay visible in it
 * exactly if it was before. */
int layer_tree_mkdir(struct layer_tree *t, const char *name, const struct layer_found *f,
		     struct err *e) MUST_USE;

/* Nothing of lower layers can be seen in the directory where we are, or under one of its names. */
int layer_tree_hide_all(struct layer_tree *t, struct err *e) MUST_USE;
int layer_tree_hide_name(struct layer_tree *t, const char *name, struct err *e) MUST_USE;

/* Open a file that only a lower layer has, to read it. */
int layer_tree_open_lower(const struct layer_tree *t, const char *name, const struct layer_found *f,
			  struct err *e) MUST_USE;

/* Where a link leads that only a lower layer has. Return the length. */
ssize_t layer_tree_read_lower(const struct layer_tree *t, const char *name,
			      const struct layer_found *f, char ret[TAR_HEAD_PATH_MAX],
			      struct err *e) MUST_USE;

/* Count an entry and the bytes it takes. ERR_LIMIT. */
int layer_tree_count(struct layer_tree *t, uint64_t bytes, struct err *e) MUST_USE;
