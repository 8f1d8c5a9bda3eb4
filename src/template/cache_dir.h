/* cache_dir.h - the folder in which templates and the node's CA are kept. Called by host.c and
 * node_ca.c.
 */
#pragma once

#include "err.h"

/* Opens the folder, made if it is missing: /var/cache/cordon for root; for others ~/.cache/cordon
 * or, without a home, a private folder in /tmp. ERR_DENIED if another user could write to it. The
 * caller owns *ret_fd. Cells do not see the folder itself: templates are folders in it. */
int cache_dir_open(int *ret_fd, struct err *e) MUST_USE;
