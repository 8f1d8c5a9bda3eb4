/* file_stage.h - staged files: a file without a name until its content is complete. Called by
 * file_write.c, file_change.c and tar_in.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define FILE_STAGE_PREFIX ".cordon-new-" /* of temporary names, watch.c does not report them */

struct file_stage {
	int fd;	       /* for reading and writing, owned */
	int dir;       /* borrowed: the directory of the name */
	char name[40]; /* "": none, the file is removed when fd is closed */
};

#define FILE_STAGE __attribute__((cleanup(file_stage_drop))) struct file_stage
#define FILE_STAGE_NONE  \
	{                \
		.fd = -1 \
	}

/* Make an empty staged file of mode 0600 in a directory. Fail with errno. */
int file_stage_open(int dir, struct file_stage *ret) MUST_USE;

/* Close the file, and remove it if it was not linked. */
void file_stage_drop(struct file_stage *s);

/* Copy the built-in's input to the file, decompressed if gzip. ERR_LIMIT if the file would have
 * more than max bytes. */
int file_stage_fill(struct file_stage *s, uint64_t max, bool gzip, struct err *e) MUST_USE;

/* Give the file its name, in a directory of the same mount. Replace a file of that name. Without
 * `replace` it fails with EEXIST. Atomic. Fail with errno. */
int file_stage_link(struct file_stage *s, int dir, const char *name, bool replace) MUST_USE;

/* Append the content of a file, from its beginning, to another. Fail with errno. */
int file_stage_copy(int from, int to) MUST_USE;
