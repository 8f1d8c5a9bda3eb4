/* confine.h - gives up what cordond does not need, in one call, before the first byte from the
 * network is read. What cannot be installed is an error. */
#pragma once

#include "err.h"

/* Files: only below the two folders (and what is open already). System calls: those of
 * syscalls.def. No new privileges. */
int confine(int state_fd, int run_fd, struct err *e) MUST_USE;
