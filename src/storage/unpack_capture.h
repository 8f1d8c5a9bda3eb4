/* unpack_capture.h - unpacks a cell's changes (cell/init/changes/capture.c; doc/archive-format.md
 * has the form). For untrusted archives. In a worker that can change nothing but the directory.
 * Called by op_unpack.c. */
#pragma once

#include "lib/base/err.h"
#include "lib/wire/storage_msg.h"
#include "storage/layer_tree.h"
#include "storage/storage_jail.h"
#include "storage/stream_in.h"

struct unpack_capture {
	int top; /* borrowed: an empty directory, for the directories of places */
	struct storage_ids ids;
	struct layer_count count;      /* bounds. The result */
	struct capture_search *search; /* borrowed. NULL: values are not looked for */
	/* Borrowed: directories of place 0 that become other places (storage_msg.h). May be
	 * NULL. */
	const char (*at)[STORAGE_PLACE_MAX];
};

/* Read the archive to its end marker. After an error the directory is to be removed. */
int unpack_capture(struct stream_in *in, struct unpack_capture *u, struct err *e) MUST_USE;

/* ---- values of secrets to search for while a capture is unpacked: a session's secrets must not
 * reach other sessions with its files
 *
 * The whole archive is searched as it comes: names, targets of links, attributes and contents. A
 * value is found in the forms that masks know (lib/mask/mask.h). Only the memory of the worker
 * holds the values, and the worker reads only files written by the same session. A value is an
 * error, or its file is noted. */

struct capture_search;

/* Read the file of STORAGE_SEARCH (lib/wire/storage_msg.h), and watch the stream. */
/* found: borrowed, for the files with values. NULL: the first is an error. */
struct capture_search *capture_search_new(int fd, struct stream_in *in, struct storage_found *found,
					  struct err *e) MUST_USE;
void capture_search_free(struct capture_search *s); /* may be NULL */
