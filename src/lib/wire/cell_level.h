/* cell_level.h - the isolation levels: what separates a cell from the machine.
 *
 * A level is a cell whose PID 1 is a certain program. The keeper makes every cell alike: the same
 * namespaces, ids, cgroup, file system and network. Levels differ in PID 1, which speaks channel B
 * (agent_msg.h), and in the operations possible on a cell. PID 1 of the level container is
 * cordon-init. At the other levels it is cordon-shim, which runs an engine, and cordon-init runs in
 * the guest behind that engine (doc/levels.md).
 *
 * Callers check abilities and engines, never names. The first row is the default. A level that a
 * client requests by name is never replaced by another one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/wire/cell_spec.h"

/* The numbers are in rows of the store: new ones come at the end. */
enum cell_level_id { CELL_CONTAINER, CELL_GVISOR, CELL_MICROVM, CELL_LEVELS };

enum cell_ability {
	CELL_CAN_PAUSE = 1 << 0,       /* freeze and thaw, where the machine has a freezer */
	CELL_CAN_DIFF = 1 << 1,	       /* what changed in its file system can be read */
	CELL_CAN_MOUNT = 1 << 2,       /* directories of the machine can be shown in it */
	CELL_CAN_KEEP_MEMORY = 1 << 3, /* its memory can be saved, and a cell started from that */
	CELL_CAN_USE_DISK = 1 << 4,    /* its files can be on a disk of their own */
	CELL_CAN_LOCK = 1 << 5,	       /* the profile locked */
	CELL_CAN_READ_ONLY = 1 << 6,   /* a root that cannot be written to */
	CELL_CAN_MOUNT_WRITABLE = 1 << 7, /* volumes, and directories to write to */
};

struct cell_level {
	enum cell_level_id id;
	const char *name;
	const char *program;   /* PID 1. Installed beside the keeper */
	const char *separated; /* by what, as text for users */
	unsigned abilities;    /* set of enum cell_ability */
	enum cell_engine engine;
	/* The engine's own needs beside the session's: added to the limits of the cell's cgroup,
	 * and not shown as the session's. */
	uint64_t memory_bytes;
	/* How often the session's memory may be charged to the cell. 0 is once. A virtual machine
	 * has its own pages, adds pages of zeros to the memory image that it shares, and is copied
	 * by a process of the same cell. */
	uint32_t memory_each;
	uint32_t pids;
	uint32_t pids_each; /* host threads of each process of the session. 0: they are in the guest
			     */
	uint32_t nofile;    /* the cell's own. 0: the session's */
};

/* Whether this machine can make cells of a level. */
struct cell_level_state {
	uint32_t is_possible;
	char why[256];	/* why not. "" if it is possible */
	char note[160]; /* what a user should know of it here, such as what runs it. May be "" */
};

/* The level of that name, NULL if there is none. NULL or "" as name is the default. */
const struct cell_level *cell_level_find(const char *name);

/* The level of that number, as a row of the store has it. A number that this version does not know
 * gives a level "unknown" without abilities: rows of a newer version fail closed. */
const struct cell_level *cell_level_of(uint32_t id);

/* The level at an index. NULL behind the last. */
const struct cell_level *cell_level_at(size_t i);

/* All names, for messages: "container, gvisor or microvm". */
#define CELL_LEVEL_NAMES "container, gvisor or microvm"

static inline bool cell_level_can(const struct cell_level *l, enum cell_ability ability)
{
	return (l->abilities & (unsigned)ability) != 0;
}
