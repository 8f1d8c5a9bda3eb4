/* capture_links.h - which files were met already, by their inode: for hard links in the archive of
 * capture.c. Bounded, because a cell chooses how many there are and how long their names. */
#pragma once

#include <stdint.h>

#include "err.h"

/* *ret_first is the path under which the file was met first; NULL: this is the first time, and path
 * is kept. ERR_LIMIT: too many. */
int capture_links_find(uint64_t device, uint64_t inode, const char *path, const char **ret_first,
		       struct err *e) MUST_USE;
