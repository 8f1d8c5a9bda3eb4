/* file_stage.h - staged files: a file that has no name until its content is complete. Called by
 * file_put.c, file_change.c and tar_in.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

#define FILE_STAGE_PREFIX ".cordon-new-" /* of temporary names; watch.c does not report them */

struct file_stage {
	int fd;	       /* for reading and writing; owned */
	int dir;       /* borrowed: the directory of the name */
	char name[40]; /* "": none; the file is removed when fd is closed */
};

#define FILE_STAGE __attribute__((cleanup(file_stage_drop))) struct file_stage
#define FILE_STAGE_NONE  \
	{                \
		.fd = -1 \
	}

/* Makes an empty staged file of mode 0600 in a directory. Fails with errno. */
int file_stage_open(int dir, struct file_stage *ret) MUST_USE;

/* Closes the file, and removes it if it was not linked. */
void file_stage_drop(struct file_stage *s);

/* Copies the built-in's input to the file, decompressed if gzip. ERR_LIMIT if the file would have
 * more than max bytes. */
int file_stage_fill(struct file_stage *s, uint64_t max, bool gzip, struct err *e) MUST_USE;

/* Gives the file its name, in a directory of the same mount. Replaces a file of that name; without
 * `replace` that is EEXIST. Atomic. Fails with errno. */
int file_stage_link(struct file_stage *s, int dir, const char *name, bool replace) MUST_USE;

/* Appends the content of a file, from its beginning, to another. Fails with errno. */
int file_stage_copy(int from, int to) MUST_USE;
