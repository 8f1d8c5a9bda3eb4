/* cache_dir.h - the directory in which templates and the node's CA are kept. Called by host.c and
 * node_ca.c. */
#pragma once

#include "lib/base/err.h"

/* Open the directory, made if it is missing: /var/cache/cordon for root. For others
 * ~/.cache/cordon or, without a home, a private directory in /tmp. ERR_DENIED if another user could
 * write to it. The caller owns *ret_fd. Cells do not see the directory itself, only templates in
 * it. */
int cache_dir_open(int *ret_fd, struct err *e) MUST_USE;
