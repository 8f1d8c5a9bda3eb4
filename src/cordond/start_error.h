/* start_error.h - the exit status of a cordond that cannot start. */
#pragma once

#include "err.h"

/* SERVE_EXIT_CANNOT_START for a cause that does not go away by itself: the supervisor then ends the
 * server. 1 for a full disk, too few descriptors or another daemon that is still ending: the
 * supervisor tries again. */
int start_error_status(const struct err *e);
