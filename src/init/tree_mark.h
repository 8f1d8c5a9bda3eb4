/* tree_mark.h - how PID 1 knows which program a process descends from, whatever it did to hide.
 *
 * Each program gets a mark before it is executed: a hard limit of file locks (RLIMIT_LOCKS, which
 * Linux has not looked at for twenty years). All descendants inherit it, and no process of a cell
 * can raise it. Marks get smaller with each program, so that no process can take the mark of an
 * earlier one. To take the mark of a later one is possible; such a process is killed with that one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A mark no program had yet, or 0 if there is none left. */
uint64_t tree_mark_next(void);

/* Did tree_mark_next() ever return it? */
bool tree_mark_was_assigned(uint64_t mark);

/* Was this limit ever given to a program? A process with a smaller one lowered it to hide. Larger
 * ones are PID 1's own and that of children it is about to mark. */
bool tree_mark_is_hiding(uint64_t limit);
