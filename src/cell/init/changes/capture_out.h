/* capture_out.h - members of the archive that capture.c writes to standard output: heads with
 * owners, times and attributes, content with holes, hard links. The first failure is kept, and
 * nothing is written after it but capture_out_end()'s last member. Called by capture.c only. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "lib/base/err.h"

#define CAPTURE_PATH_MAX 4096 /* of a member, with its NUL */

/* One entry, whose name in the archive is path. fd: of a file or directory. For a FIFO: its
 * directory. Else -1. link: the target of a symbolic link, the name of a FIFO, else "". */
int capture_out_entry(const char *path, const struct stat *st, int fd, const char *link,
		      struct err *e) MUST_USE;

/* The layers' entry of this name is removed. */
int capture_out_whiteout(const char *path, struct err *e) MUST_USE;

/* The last member: "whole" with the number of members before it, or "failed" with the reason. */
int capture_out_end(const struct err *failure, struct err *e) MUST_USE;
