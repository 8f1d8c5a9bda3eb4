/* kill_tree.h - kills all that a program started, wherever it has gone to. */
#pragma once

#include <stdint.h>

#include "programs.h"

/* Begins; when none is left, or two seconds have passed, PROGRAM_SEND_TREE_DEAD is set if report.
 */
void kill_tree_begin(struct program *p, uint64_t now_ns, bool report);

/* Is there anything to do? */
bool kill_tree_busy(void);

/* One look at all processes, and what follows from it. The caller reaps before. Returns how many
 * milliseconds to wait for the next, 0 for at once. */
int kill_tree_pass(uint64_t now_ns);
