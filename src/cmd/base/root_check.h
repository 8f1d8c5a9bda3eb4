/* root_check.h - whether cells can be made in this process's root directory at all. Called by
 * `cordon run` and `cordon serve` before they start any program. */
#pragma once

#include "lib/base/err.h"

/* ERR_UNSUPPORTED: it is a plain chroot. */
int root_check(struct err *e) MUST_USE;
