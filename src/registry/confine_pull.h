/* confine_pull.h - what cordon-pull gives up before it connects to any server: every file
 * (Landlock), and every system call that is not in syscalls.def. Called by main.c. */
#pragma once

#include "err.h"

int confine_pull(struct err *e) MUST_USE;
