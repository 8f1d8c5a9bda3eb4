/* saved_file.h - a local file that a download replaces, whole or not at all.
 *
 * The bytes go into a file without a name (O_TMPFILE), which vanishes with the process however it
 * ends. Where the file system has none, into one beside the target. Blocks of zeros become holes:
 * a file that takes no space in a cell takes none here. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct saved_file {
	const char *target; /* borrowed */
	int fd;		    /* owned */
	uint64_t length;
	bool named;	     /* `part` exists */
	char part[PATH_MAX]; /* beside the target */
};

int saved_file_open(struct saved_file *f, const char *target, struct err *e) MUST_USE;
int saved_file_write(struct saved_file *f, const void *bytes, size_t n, struct err *e) MUST_USE;
/* Replace the target by this file. */
int saved_file_commit(struct saved_file *f, mode_t mode, struct err *e) MUST_USE;
/* Close the file. Delete it unless it was committed. */
void saved_file_release(struct saved_file *f);

/* Write to a regular file, with holes for blocks of zeros. The caller sets the length at the end,
 * since a hole at the end is not there yet. */
int saved_file_put(int fd, const void *bytes, size_t n, struct err *e) MUST_USE;
