/* unpack_capture.h - unpacks what a cell changed (init/capture.c; doc/storage.md has the form). For
 * untrusted archives; in a worker, which can change nothing but the directory. Called by
 * op_unpack.c. */
#pragma once

#include "capture_search.h"
#include "layer_tree.h"
#include "storage_jail.h"
#include "storage_msg.h"
#include "stream_in.h"

struct unpack_capture {
	int top; /* borrowed: an empty directory, for the directories of places */
	struct storage_ids ids;
	struct layer_count count; /* bounds; the result */
	struct capture_search *search; /* borrowed; NULL: values are not looked for */
	/* Borrowed: directories of place 0 that are other places (storage_msg.h). May be NULL. */
	const char (*at)[STORAGE_PLACE_MAX];
};

/* Reads the archive to its end marker. After an error the directory is to be removed. */
int unpack_capture(struct stream_in *in, struct unpack_capture *u, struct err *e) MUST_USE;
