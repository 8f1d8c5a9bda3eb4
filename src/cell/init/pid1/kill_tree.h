/* kill_tree.h - kills all processes that a program started, also those that left its group and
 * session. Called by main.c. */
#pragma once

#include <stdint.h>

#include "cell/init/pid1/programs.h"

/* Begin to kill the tree. When no process is left, or after two seconds, PROGRAM_SEND_TREE_DEAD is
 * set if `report` is true. */
void kill_tree_begin(struct program *p, uint64_t now_ns, bool report);

/* Is a tree being killed? */
bool kill_tree_busy(void);

/* One pass over all processes. The caller reaps before it. Return how many milliseconds to wait
 * until the next pass. */
int kill_tree_pass(uint64_t now_ns);
