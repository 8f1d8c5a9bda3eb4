/* cell_ops.h - operations on a cell that need neither its PID 1 nor its keeper: a table of
 * functions for each isolation level (cell_level.h). Called by cordond and cordon run. A level
 * whose use is not counted by a cgroup has its own functions. Callers do not depend on the level.
 */
#pragma once

#include "cell/cellctl/usage.h"
#include "lib/wire/cell_level.h"

struct cell_ops {
	/* Read the cell's use now, or until it ended (usage.h). */
	void (*usage)(const struct cgroups *c, const char *id, enum usage_detail detail,
		      struct usage *ret);
};

const struct cell_ops *cell_ops(const struct cell_level *level);
