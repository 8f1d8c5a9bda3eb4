/* mount_source.h - whether a directory or file of the machine may be given to cells. Called by
 * `cordon run` for --mount and by `cordon serve` for mount_roots, with the open source. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

/* Refuses (ERR_DENIED) a source that opens the machine to the cell: /, system folders, home
 * directories, and the folders in `own` (of Cordon; NULL and "" are skipped); also a folder above
 * one of them. The source is judged by what it is, so links and ".." lead to the same answer.
 * escape: the option or setting that allows it, for the message. */
int mount_source_check(int source_fd, bool writable, const char *const *own, size_t nown,
		       const char *escape, struct err *e) MUST_USE;
