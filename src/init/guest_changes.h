/* guest_changes.h - what was changed in a virtual machine: the built-ins "diff" and "capture",
 * which exist there only. In a cell the keeper starts the readers (diff.h, capture.h); no keeper
 * sees the file systems of a guest. See guest_boot.h. */
#pragma once

#include <stdbool.h>

/* In the child of a built-in, as root, with the descriptors of PID 1 still open. False: it is
 * another built-in. Else it does not return. */
bool guest_changes_run(const char *name);
