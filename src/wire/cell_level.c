#include "cell_level.h"

#include <string.h>

static const struct cell_level levels[CELL_LEVELS] = {
	[CELL_CONTAINER] = { CELL_CONTAINER, "container", "cordon-init",
			     "namespaces, seccomp, capabilities, Landlock",
			     CELL_CAN_PAUSE | CELL_CAN_DIFF | CELL_CAN_MOUNT },
};

static const struct cell_level unknown = { CELL_LEVELS, "unknown", "", "", 0 };

const struct cell_level *cell_level_of(uint32_t id)
{
	return id < CELL_LEVELS ? &levels[id] : &unknown;
}

const struct cell_level *cell_level_at(size_t i)
{
	return i < CELL_LEVELS ? &levels[i] : NULL;
}

const struct cell_level *cell_level_find(const char *name)
{
	if (name == NULL || *name == '\0')
		return &levels[0];
	for (size_t i = 0; i < CELL_LEVELS; i++)
		if (strcmp(levels[i].name, name) == 0)
			return &levels[i];
	return NULL;
}
