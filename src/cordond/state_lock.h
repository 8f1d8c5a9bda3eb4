/* state_lock.h - one cordond for each state folder. Called at the start. */
#pragma once

#include "err.h"

/* Locks the folder; waits for an earlier cordond that has it to end. The lock is held until
 * *ret_fd is closed. */
int state_lock(int state_fd, const char *folder, int *ret_fd, struct err *e) MUST_USE;
