/* unpack_image.h - unpacks a layer of an image, or a whole root file system, by the rules for such
 * archives (doc/archive-format.md). For untrusted archives. In a worker, which can change nothing
 * but the directory. Called by op_unpack.c. */
#pragma once

#include "storage/layer_tree.h"
#include "storage/storage_jail.h"
#include "storage/stream_in.h"

struct unpack_image {
	int top;	  /* borrowed: an empty directory, for the root directory */
	const int *lower; /* borrowed: root directories of the layers below, the lowest first */
	unsigned nlower;
	bool whole; /* a root file system: no name hides anything */
	struct storage_ids ids;
	struct layer_count count; /* bounds. The result */
};

/* Read the archive to the end marker of tar. The rest is the caller's. After an error the directory
 * is to be removed. */
int unpack_image(struct stream_in *in, struct unpack_image *job, struct err *e) MUST_USE;
