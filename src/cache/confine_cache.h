/* confine_cache.h - what cordon-cache may do from its start on: one folder, no network, few system
 * calls. Called by main.c. cordon-egress, whose requests it reads, may be taken over. */
#pragma once

#include "err.h"

/* Gives up all files but those below dir, all of the network. To be called before threads are
 * started. */
int confine_cache_files(int dir, struct err *e) MUST_USE;
/* Leaves only the system calls of syscalls.def to all threads. */
int confine_cache_calls(struct err *e) MUST_USE;
