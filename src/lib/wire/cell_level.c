#include "lib/wire/cell_level.h"

#include <string.h>

#include "lib/wire/cell_spec.h"

#define MIB ((uint64_t)1 << 20)

/* Its programs use the file system that the keeper has made. */
#define ALL_OF_CELLS                                                                           \
	(CELL_CAN_PAUSE | CELL_CAN_DIFF | CELL_CAN_MOUNT | CELL_CAN_USE_DISK | CELL_CAN_LOCK | \
	 CELL_CAN_READ_ONLY)

/* The needs of engines were measured with an idle guest: doc/shim-protocol.md. */
static const struct cell_level levels[CELL_LEVELS] = {
	[CELL_CONTAINER] = { .id = CELL_CONTAINER,
			     .name = "container",
			     .program = "cordon-init",
			     .separated = "namespaces, seccomp, capabilities, Landlock",
			     .abilities = ALL_OF_CELLS | CELL_CAN_MOUNT_WRITABLE,
			     .pids_each = 1 },
	[CELL_GVISOR] = { .id = CELL_GVISOR,
			  .name = "gvisor",
			  .program = "cordon-shim",
			  .separated = "gVisor, a kernel in user space, inside a container cell",
			  .abilities = ALL_OF_CELLS,
			  .engine = CELL_ENGINE_GVISOR,
			  .memory_each = 1,
			  .memory_bytes = 48 * MIB,
			  .pids = 256,
			  .pids_each = 3,
			  .nofile = 65536 },
	[CELL_MICROVM] = { .id = CELL_MICROVM,
			   .name = "microvm",
			   .program = "cordon-shim",
			   .separated = "a virtual machine with its own kernel, inside a locked "
					"container cell",
			   .abilities = CELL_CAN_PAUSE | CELL_CAN_DIFF | CELL_CAN_KEEP_MEMORY |
					CELL_CAN_LOCK | CELL_CAN_READ_ONLY,
			   .engine = CELL_ENGINE_MICROVM,
			   .memory_each = 3,
			   .memory_bytes = 128 * MIB,
			   .pids = 64,
			   .nofile = 8192 },
};

static const struct cell_level unknown = {
	.id = CELL_LEVELS, .name = "unknown", .program = "", .separated = ""
};

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

/* ---- names of profiles. The keeper, whose lines are counted, knows profiles by number only. */

const char *const cell_profile_names[CELL_PROFILES] = {
	[CELL_STANDARD] = "standard",
	[CELL_LOCKED] = "locked",
};

const char *cell_profile_name(enum cell_profile profile)
{
	return (unsigned)profile < CELL_PROFILES ? cell_profile_names[profile] : "unknown";
}

enum cell_profile cell_profile_find(const char *name)
{
	unsigned i = 0;

	while (i < CELL_PROFILES && strcmp(cell_profile_names[i], name) != 0)
		i++;
	return (enum cell_profile)i;
}
