/* err_missing.h - the one form in which users read that a thing does not exist: no such session
 * 'NAME'. Not in err.h, which the keeper has, too. */
#pragma once

#include "lib/base/err.h"

/* Returns -1. */
#define err_missing(e, kind, name) err_set(e, ERR_NOT_FOUND, "no such %s '%.64s'", kind, name)
