/* confine_egress.h - gives up what cordon-egress does not need, in one call, before the first byte
 * of a cell or a server is read. What cannot be installed is an error; only a kernel that has no
 * Landlock at all is served without, and that is logged. */
#pragma once

#include "err.h"

/* No file can be opened, no program started, no socket made but TCP and UDP ones to connect with,
 * no port listened at. No new privileges. */
int confine_egress(struct err *e) MUST_USE;
