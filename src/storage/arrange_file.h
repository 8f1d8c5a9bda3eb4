/* arrange_file.h - files of an image, read from its layers and written into the layer above. Called
 * by arrange.c. */
#pragma once

#include "arrange.h"
#include "buf.h"

#define ARRANGE_FILE_MAX (8U << 20)

struct arranging {
	struct layer_tree *tree;
	const struct storage_ids *ids;
};

/* A file of the merged tree; its attributes are kept when it is written again. */
struct arranged {
	bool exists; /* as a regular file */
	uint32_t uid, gid;
	mode_t mode;
	struct buf text; /* owned */
};

/* Reads it. A file that is not there, is not regular or is too large is empty, and gets this mode.
 * To be released. */
int arrange_read(struct arranging *a, const char *path, mode_t mode, struct arranged *ret,
		 struct err *e) MUST_USE;
void arrange_release(struct arranged *f);

/* Writes it: in place of whatever has the name. */
int arrange_write(struct arranging *a, const char *path, const struct arranged *f, const void *text,
		  size_t len, struct err *e) MUST_USE;
/* A new file of root's. */
int arrange_put(struct arranging *a, const char *path, mode_t mode, const char *text,
		struct err *e) MUST_USE;

/* Does the name exist in the merged tree, as anything? */
int arrange_exists(struct arranging *a, const char *path, bool *ret, struct err *e) MUST_USE;
/* Makes a directory or link if nothing has the name. */
int arrange_dir(struct arranging *a, const char *path, mode_t mode, uint32_t owner,
		struct err *e) MUST_USE;
int arrange_link(struct arranging *a, const char *path, const char *target, struct err *e) MUST_USE;
/* The same, and what has the name but is not a directory is replaced. */
int arrange_mount_point(struct arranging *a, const char *path, mode_t mode, struct err *e) MUST_USE;
