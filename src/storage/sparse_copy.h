/* sparse_copy.h - copies content of a file into another one, without its holes. Called by what
 * writes root images and memory images. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The progress told while content is copied, and where it goes. */
struct sparse_copy {
	int to;		    /* borrowed */
	bool skip_zeros;    /* pages of zeros are left out, too */
	uint64_t bytes_max; /* of written */
	uint64_t written;   /* bytes */
};

/* Copy size bytes from the beginning of `from` to the unwritten place `at`. ERR_CONFLICT: the file
 * has become shorter. REASON_STORAGE_FULL (storage_room.h), REASON_TOO_LARGE. */
int sparse_copy(struct sparse_copy *c, int from, uint64_t size, uint64_t at,
		struct err *e) MUST_USE;
