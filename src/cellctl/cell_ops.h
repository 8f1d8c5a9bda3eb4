/* cell_ops.h - what the outside asks about a cell without asking its PID 1 or its keeper: a table
 * of functions for each isolation level (cell_level.h). A level whose cells count their use in
 * another way than by a cgroup brings its own functions; callers do not know which level they ask.
 */
#pragma once

#include "cell_level.h"
#include "usage.h"

struct cell_ops {
	/* What the cell uses now, or used until it ended; usage.h. */
	void (*usage)(const struct cgroups *c, const char *id, enum usage_detail detail,
		      struct usage *ret);
};

const struct cell_ops *cell_ops(const struct cell_level *level);
