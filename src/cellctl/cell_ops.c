#include "cell_ops.h"

static const struct cell_ops table[CELL_LEVELS] = {
	[CELL_CONTAINER] = { .usage = usage_read },
};

const struct cell_ops *cell_ops(const struct cell_level *level)
{
	return &table[level->id];
}
