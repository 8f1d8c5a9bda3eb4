/* cell_programs.h - Cordon's programs that cells have: the code interpreter with its kernels, and
 * the gateway for MCP servers. Called by host.c.
 *
 * They are taken from the folder of the running program, and are files of the cached root directory
 * like any other: a cell may read and run them, or replace them for itself. A missing one is left
 * out: cells work without it. So is, with a warning, one that another user could have put there:
 * files and folders must belong to root, to the user who runs the program or to its owner, and no
 * other user may write to them. Links below `kernels` are left out, too. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"

#define CELL_KERNELS "opt/cordon/kernels"

/* Changes when one of the files does. */
uint64_t cell_programs_stamp(void);

/* Copy them into a root directory with HOST_PROGRAMS (host_files.h). */
int cell_programs_copy(int root, struct err *e) MUST_USE;
/* The first of them without a file beside the running program, or NULL. Called by `cordon serve`.
 */
const char *cell_programs_missing(void);
