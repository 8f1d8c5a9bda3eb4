/* mount_source.h - whether a directory or file of the machine may be given to cells. Called by
 * `cordon run` for --mount and by `cordon serve` for mount_roots, with the open source. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Refuse (ERR_DENIED) a source that opens the machine to the cell: /, system folders, home
 * directories, and the folders in `own` (of Cordon. NULL and "" are skipped). Also a folder above
 * one of them. The source is judged by its identity, so links and ".." lead to the same answer.
 * escape: the option or setting that allows it, for the message. */
int mount_source_check(int source_fd, bool writable, const char *const *own, size_t nown,
		       const char *escape, struct err *e) MUST_USE;
