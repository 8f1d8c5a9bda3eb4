/* pack.h - a directory of this machine as a tar archive. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* Starts a child that writes the archive into a pipe: the entries below dir, named relative to it.
 * Returns the pipe's read end, owned by the caller, or -1. The end marker is written only if all
 * went well, so a receiver detects an incomplete archive. */
int pack_start(const char *dir, pid_t *ret_child, struct err *e) MUST_USE;
/* Waits for it, after the pipe was closed. Fails if it failed (it has printed why); *ret_skipped:
 * some entries were left out and named on stderr (sockets, devices, unreadable files). */
int pack_end(pid_t child, bool *ret_skipped, struct err *e) MUST_USE;

/* Is this entry to be packed? path: relative to the directory. */
typedef bool pack_fn(const char *path, bool is_dir, void *arg);
/* Writes the archive of what keeps says to a descriptor, here and now. *ret_files: entries that are
 * no directories. */
int pack_write(int to, const char *dir, pack_fn *keeps, void *arg, uint64_t *ret_files,
	       struct err *e) MUST_USE;
