/* layer_tree.h - the tree of a layer that is being made, above layers that are below it: finds and
 * makes directories as a process in the merged tree would see them. For untrusted names. Called by
 * unpack_image.c and arrange.c, in a worker.
 *
 * A path is walked one component at a time. Links are followed as in a cell, whose root directory
 * is the top of the tree: none leads out of it. A directory that only lower layers have is made in
 * this one, with the same owner, mode and time. No path that contains a link is ever given to the
 * kernel.
 *
 * What must not change: a name of a lower layer can be seen exactly if this layer has no entry of
 * that name. So hiding is writing a whiteout (a character device 0:0), and what an opaque directory
 * hides gets one each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "err.h"
#include "tar_head.h"

#define LAYER_TREE_LOWER_MAX 128
#define LAYER_TREE_DEPTH_MAX 256

/* Lower layers in which a directory is: a bit for each. */
struct layer_mask {
	uint64_t bits[LAYER_TREE_LOWER_MAX / 64];
};

/* What is told while a tree grows. */
struct layer_count {
	uint64_t bytes, entries;
	uint64_t bytes_max, entries_max;
	uint32_t reserve_percent; /* of the file system that stay free; 0: not looked at */
	uint64_t looked_at;	  /* bytes, when that was looked at last */
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
	struct stat own, lower; /* of the entry itself, not of what a link leads to */
	unsigned layer;		/* which lower one has it */
	struct layer_mask mask; /* of a directory: lower layers that it is merged of */
};

int layer_tree_init(struct layer_tree *t, int own, const int *lower, unsigned nlower,
		    struct err *e) MUST_USE;
void layer_tree_release(struct layer_tree *t);

/* Goes to the directory of a path (relative to the top, no "..") and makes what is missing: 0755,
 * of root. *ret_name: the last component, a part of path. ERR_INVALID: a part of the path is not a
 * directory. */
int layer_tree_parent(struct layer_tree *t, const char *path, const char **ret_name,
		      struct err *e) MUST_USE;
/* Goes to that directory itself. */
int layer_tree_enter(struct layer_tree *t, const char *path, struct err *e) MUST_USE;

/* Looks for a name in the directory where we are. A whiteout of this layer counts as in_own. */
int layer_tree_look(const struct layer_tree *t, const char *name, struct layer_found *ret,
		    struct err *e) MUST_USE;
bool layer_tree_is_whiteout(const struct stat *st);

/* Makes way for an entry that is not a directory. */
int layer_tree_clear(struct layer_tree *t, const char *name, const struct layer_found *f,
		     struct err *e) MUST_USE;
/* Makes a directory where we are, unless there is one; what lower layers have stays visible in it
 * exactly if it was before. */
int layer_tree_mkdir(struct layer_tree *t, const char *name, const struct layer_found *f,
		     struct err *e) MUST_USE;

/* Nothing of lower layers can be seen in the directory where we are, or under one of its names. */
int layer_tree_hide_all(struct layer_tree *t, struct err *e) MUST_USE;
int layer_tree_hide_name(struct layer_tree *t, const char *name, struct err *e) MUST_USE;

/* Opens a file that only a lower layer has, to read it. */
int layer_tree_open_lower(const struct layer_tree *t, const char *name, const struct layer_found *f,
			  struct err *e) MUST_USE;

/* Where a link leads that only a lower layer has. Returns the length. */
ssize_t layer_tree_read_lower(const struct layer_tree *t, const char *name,
			      const struct layer_found *f, char ret[TAR_HEAD_PATH_MAX],
			      struct err *e) MUST_USE;

/* Counts an entry and the bytes it takes. ERR_LIMIT. */
int layer_tree_count(struct layer_tree *t, uint64_t bytes, struct err *e) MUST_USE;
