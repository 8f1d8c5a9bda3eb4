/* cells_wait.h - how long cordond, when it stops, waits for the cells of the pool to end: as long
 * as their number changes. A keeper that ends or hangs now is not replaced, and clients wait for
 * the next cordond, which ends the cells that are left (recover.c). */
#pragma once

#include "core_run.h"

struct cells_wait {
	uint64_t began_ns;
	uint64_t changed_ns; /* when the number last changed; at first began_ns */
	unsigned ending;
};

/* After core_drain(). */
bool cells_wait_is_over(struct cells_wait *w, const struct core *c, uint64_t now_ns);
