#include "cells_wait.h"

#include "clock.h"
#include "log.h"

#define ALL_MS 5000
#define STUCK_MS 1000 /* without the end of a cell: their keeper has ended or hangs */

bool cells_wait_is_over(struct cells_wait *w, const struct core *c, uint64_t now_ns)
{
	unsigned ending = core_cells_ending(c);

	if (core_drained(c))
		return true;
	if (ending != w->ending) {
		w->ending = ending;
		w->changed_ns = now_ns;
	}
	if (now_ns - w->began_ns < ALL_MS * CLOCK_MS &&
	    now_ns - w->changed_ns < STUCK_MS * CLOCK_MS)
		return false;
	log_warn("cells are left for the next cordond to end", "cells=%u", ending);
	return true;
}
