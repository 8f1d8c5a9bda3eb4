/* cell_level.h - the isolation levels: what separates a cell from the machine.
 *
 * A level is a cell whose PID 1 is a certain program. The keeper makes every cell alike: the same
 * namespaces, ids, cgroup, file system and network. What differs is the program at KEEPER_FD_INIT,
 * which speaks channel B (agent_msg.h), and what can be done with a cell of that level. A further
 * level is a row in cell_level.c, one in cellctl/cell_ops.c, and that program, beside cordon-init.
 * Callers check abilities, never names. The first row is the default. A level that a client
 * requests by name is never replaced by another one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are in rows of the store: new ones come at the end. */
enum cell_level_id { CELL_CONTAINER, CELL_LEVELS };

enum cell_ability {
	CELL_CAN_PAUSE = 1 << 0, /* freeze and thaw, where the machine has a freezer */
	CELL_CAN_DIFF = 1 << 1,	 /* the keeper can list what changed in its file system */
	CELL_CAN_MOUNT = 1 << 2, /* directories of the machine can be shown in it */
};

struct cell_level {
	enum cell_level_id id;
	const char *name;
	const char *program;   /* PID 1; installed beside the keeper */
	const char *separated; /* by what, as text for users */
	unsigned abilities;    /* set of enum cell_ability */
};

/* The level of that name, NULL if there is none; NULL or "" as name is the default. */
const struct cell_level *cell_level_find(const char *name);

/* The level of that number, as a row of the store has it. A number that this version does not know
 * gives a level "unknown", which has no abilities: rows of a newer version fail closed. */
const struct cell_level *cell_level_of(uint32_t id);

/* The level at an index; NULL behind the last. */
const struct cell_level *cell_level_at(size_t i);

static inline bool cell_level_can(const struct cell_level *l, enum cell_ability ability)
{
	return (l->abilities & (unsigned)ability) != 0;
}
