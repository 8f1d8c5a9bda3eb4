#pragma once

#include "err.h"

/* Gives up all files but those below dir, all of the network. To be called before threads are
 * started. */
int confine_cache_files(int dir, struct err *e) MUST_USE;
/* Leaves only the system calls of syscalls.def to all threads. */
int confine_cache_calls(struct err *e) MUST_USE;
