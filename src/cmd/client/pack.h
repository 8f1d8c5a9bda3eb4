/* pack.h - a directory of this machine as a tar archive. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

/* Start a child that writes the archive into a pipe: the entries below dir, named relative to it.
 * Return the pipe's read end, owned by the caller, or -1. The end marker is written only if all
 * went well, so a receiver detects an incomplete archive. */
int pack_start(const char *dir, pid_t *ret_child, struct err *e) MUST_USE;
/* Wait for it, after the pipe was closed. Fail if it failed (it has printed why). *ret_skipped:
 * some entries were left out and named on stderr (sockets, devices, unreadable files). */
int pack_end(pid_t child, bool *ret_skipped, struct err *e) MUST_USE;

/* Is this entry to be packed? path: relative to the directory. */
typedef bool pack_fn(const char *path, bool is_dir, void *arg);
/* Write the archive of the files that keeps() accepts to a descriptor, here and now. *ret_files:
 * entries other than directories. */
int pack_write(int to, const char *dir, pack_fn *keeps, void *arg, uint64_t *ret_files,
	       struct err *e) MUST_USE;
