/* tree_mark.h - marks, by which PID 1 knows which program a process descends from, even if the
 * process left its parent, group and session.
 *
 * Each program gets a mark before it is executed: a hard limit of file locks (RLIMIT_LOCKS, which
 * Linux has not enforced for twenty years). All descendants inherit it, and no process of a cell
 * can raise it. Each mark is smaller than the one before, so no process can take the mark of an
 * earlier program. It can lower its mark to that of a later one. Then it is killed with that one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The limit that marks are in: RLIMIT_LOCKS or, in gVisor, which refuses to set that one,
 * RLIMIT_RSS. The latter has no effect either, but programs may lower it for themselves (ulimit
 * -m). */
int tree_mark_resource(void);

/* Its line in /proc/PID/limits begins with this. */
const char *tree_mark_line(void);

/* Assign a new mark, 0 if there is none left. */
uint64_t tree_mark_next(void);

/* Did tree_mark_next() ever return it? */
bool tree_mark_was_assigned(uint64_t mark);

/* Is this limit smaller than all marks? Then the process has lowered it to hide. (PID 1, and
 * children without a mark yet, have larger ones.) */
bool tree_mark_is_hiding(uint64_t limit);
