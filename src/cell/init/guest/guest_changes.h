/* guest_changes.h - the changes in a virtual machine: the built-ins "diff", "frozen-diff" and
 * "capture", which exist there only. In a cell the keeper starts the readers (diff.h, capture.h).
 * No keeper sees the file systems of a guest. See guest_boot.h.
 *
 * The programs of the guest stand still from the start of "frozen-diff" and "capture" until the
 * built-in has ended, which waits for the end of its standard input. PID 1 lets them continue,
 * however it ended. */
#pragma once

#include "cell/init/pid1/spawn.h"

/* Run as root, with the descriptors of PID 1 still open. */
extern const struct spawn_guest guest_changes;

/* In PID 1: do programs stand still for one of these? */
bool guest_changes_stop_programs(void);
