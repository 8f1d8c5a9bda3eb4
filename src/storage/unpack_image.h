/* unpack_image.h - unpacks a layer of an image, or a whole root file system, by the rules for such
 * archives (doc/storage.md). For untrusted archives; in a worker, which can change nothing but the
 * directory. Called by op_unpack.c. */
#pragma once

#include "layer_tree.h"
#include "storage_jail.h"
#include "stream_in.h"

struct unpack_image {
	int top;	  /* borrowed: an empty directory, for the root directory */
	const int *lower; /* borrowed: root directories of the layers below, the lowest first */
	unsigned nlower;
	bool whole; /* a root file system: no name hides anything */
	struct storage_ids ids;
	struct layer_count count; /* bounds; the result */
};

/* Reads the archive to the end marker of tar; what follows is the caller's. After an error the
 * directory is to be removed. */
int unpack_image(struct stream_in *in, struct unpack_image *job, struct err *e) MUST_USE;
