/* serve_sizes.h - memory and disk of sessions without own values, by the memory of the machine.
 * Called by serve.c. Pure. */
#pragma once

#include "lib/config/config.h"

/* Replace memory_default and disk_default, where they are 0, within the bounds that the operator
 * has set. */
void serve_sizes_set(struct config *c, uint64_t machine_bytes);
