/* tar_stream.h - reads a tar archive from the input of a built-in, entry by entry. Called by
 * tar_in.c. */
#pragma once

#include "err.h"
#include "tar_head.h"

/* Reads the header of the next entry, with names and size of extension headers before it. Returns
 * 0; 1 after the end marker (the rest of the input was read and ignored); or -1, also if the
 * archive has no end marker. */
int tar_stream_next(struct tar_head *ret, struct err *e) MUST_USE;

/* Reads the entry's body and padding, and writes the body to fd, unless that is -1. */
int tar_stream_body(int fd, const struct tar_head *h, struct err *e) MUST_USE;

/* Makes a path relative, in place: removes leading slashes, empty and "." components. ".." and more
 * than BUILTIN_DEPTH_MAX components are errors. The result may be "". */
int tar_stream_clean(char *path, struct err *e) MUST_USE;
