#include "cell/cellctl/cell_ops.h"

#include <string.h>

/* Nothing is counted for a level that this version does not know. */
static void cell_ops_usage_none(const struct cgroups *c, const char *id, enum usage_detail detail,
				struct usage *ret)
{
	memset(ret, 0, sizeof(*ret));
}

static const struct cell_ops table[CELL_LEVELS + 1] = {
	[CELL_CONTAINER] = { .usage = usage_read },
	/* The engine is in the cgroup of the cell, with all that the guest uses. */
	[CELL_GVISOR] = { .usage = usage_read },
	[CELL_MICROVM] = { .usage = usage_read },
	[CELL_LEVELS] = { .usage = cell_ops_usage_none },
};

const struct cell_ops *cell_ops(const struct cell_level *level)
{
	return &table[level->id];
}
