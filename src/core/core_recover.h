/* core_recover.h - compares the store with the cells that exist, after a start: see core_recover.c.
 */
#pragma once

#include "core.h"

/* Called when the first keeper is there, and again a second after a failure. When it has succeeded,
 * core_recovered() is true and sessions can be used. */
int core_recover(struct core *c, struct err *e) MUST_USE;
