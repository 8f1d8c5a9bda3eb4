/* cache.h - where this machine's templates and its authority are kept. */
#pragma once

#include "err.h"

/* Opens the folder, made if it is missing: /var/cache/cordon for root; for others ~/.cache/cordon
 * or, without a home, a private folder in /tmp. ERR_DENIED if another user could write to it. The
 * caller owns *ret_fd. Cells do not see the folder itself: templates are folders in it. */
int cache_open(int *ret_fd, struct err *e) MUST_USE;
