/* unpack.h - unpacks a tar archive from a cell into a directory of this machine. The archive is
 * untrusted: see unpack.c. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* The next bytes of the archive, as they come: > 0, 0 at the end, -1 with e set. */
typedef ssize_t unpack_read_fn(void *arg, void *buf, size_t cap, struct err *e);

struct unpack_count {
	uint64_t files, directories, links, skipped;
};

/* Extracts below the directory top (borrowed). What was extracted before an error stays. */
int unpack_tree(int top, unpack_read_fn *read, void *arg, struct unpack_count *ret,
		struct err *e) MUST_USE;
