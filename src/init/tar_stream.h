/* tar_stream.h - a tar archive from the chunks on standard input, entry by entry. */
#pragma once

#include "err.h"
#include "tar_head.h"

/* Reads the next entry's header, with the names and size that extensions in front of it give.
 * Returns 0, 1 after the end marker (what follows it was read and dropped), or -1. An archive that
 * ends without its marker is refused. */
int tar_stream_next(struct tar_head *ret, struct err *e) MUST_USE;

/* Reads the entry's body and its padding into a file, or nowhere if fd is -1. */
int tar_stream_body(int fd, const struct tar_head *h, struct err *e) MUST_USE;

/* Makes a path relative and plain, in place: no leading '/', no empty or "." parts. Refuses ".."
 * and more than BUILTIN_DEPTH_MAX parts. May leave "". */
int tar_stream_clean(char *path, struct err *e) MUST_USE;
