/* lockfile_print.h - cordon packages pins FILE: a lockfile as the pins of a policy. Local: asks no
 * server. */
#pragma once

#include "err.h"

/* Prints { "pins": { "npm:left-pad": ["1.3.0 sha512:..."] } }. */
int lockfile_print(const char *file, struct err *e) MUST_USE;
