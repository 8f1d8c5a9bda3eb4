/* file_stage.h - a file that has no name until it is complete. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

#define FILE_STAGE_PREFIX ".cordon-new-" /* of names that are there for a moment only */

struct file_stage {
	int fd;	       /* for reading and writing; owned */
	int dir;       /* borrowed: where the name is */
	char name[40]; /* "": it has none, and goes with its descriptor */
};

#define FILE_STAGE __attribute__((cleanup(file_stage_drop))) struct file_stage
#define FILE_STAGE_NONE  \
	{                \
		.fd = -1 \
	}

/* Makes an empty one in a directory, of mode 0600. On failure errno is as the kernel left it. */
int file_stage_open(int dir, struct file_stage *ret) MUST_USE;

/* Removes it if it was not linked, and closes it. */
void file_stage_drop(struct file_stage *s);

/* Takes content from the input until it is complete, and unpacks it if it is gzip; over max bytes
 * (in the file) is refused (ERR_LIMIT). */
int file_stage_fill(struct file_stage *s, uint64_t max, bool gzip, struct err *e) MUST_USE;

/* Gives it its name, in a directory of the same mount, in place of what has that name or, without
 * `replace`, only if there is none (EEXIST). Atomic. Fails with errno. */
int file_stage_link(struct file_stage *s, int dir, const char *name, bool replace) MUST_USE;

/* Appends the content of a file, from its beginning, to another. Fails with errno. */
int file_stage_copy(int from, int to) MUST_USE;
