/* cell_spec.h - types and bounds that describe a cell: shared by the keeper, the core, the
 * interfaces and the command line, whatever program makes the cell.
 *
 * Only types, constants and pure functions. The layout of the structures must not change without
 * KEEPER_VERSION: they are sent over channel A (keeper_msg.h) as they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/session_id.h"

#define CELL_ID_MAX SESSION_ID_MAX
#define CELL_MACHINE_ID 32 /* hexadecimal digits of /dev/machine-id */
#define CELL_PATH_MAX 256
#define CELL_PLACE_MAX 64
#define CELL_LAYERS_MAX 40
#define CELL_MOUNTS_MAX 8
#define CELL_IDS 65536U	  /* user ids, and group ids, of one cell */
#define CELL_ROOTS_MAX 24 /* directories of a server that layers and mounts are taken from */

/* A cell's directory in each hierarchy is called CELL_CGROUP_PREFIX and the cell's id. The
 * hierarchies: v2 has one, at index 0. v1 has up to five: cpu, cpuacct, memory, pids, and a v2
 * hierarchy beside them, with which cells are frozen and killed. */
#define CELL_CGROUP_PREFIX "cordon-"
#define CELL_CGROUP_DIRS 5
#define CELL_CGROUP_UNIFIED 4

/* standard: the cell has a root user with capabilities inside its namespaces. locked: one user, no
 * capabilities, no_new_privs. */
enum cell_profile { CELL_STANDARD, CELL_LOCKED, CELL_PROFILES };

/* The engine that runs a cell's programs beside the machine's kernel (cell_level.h). With an engine
 * PID 1 is cordon-shim, which starts it. gVisor: standard profile, with the system calls that runsc
 * needs and without Landlock. microVM: locked profile. */
enum cell_engine { CELL_ENGINE_NONE, CELL_ENGINE_GVISOR, CELL_ENGINE_MICROVM, CELL_ENGINES };

/* Limits that need a cgroup, as a set: those a machine can enforce, or those in force. */
enum {
	CELL_LIMIT_MEMORY = 1 << 0,
	CELL_LIMIT_CPU = 1 << 1,
	CELL_LIMIT_PIDS = 1 << 2,
	CELL_LIMIT_ALL = (1 << 3) - 1,
	CELL_LIMIT_DISK = 1 << 3, /* bytes a second. Not one of those that every cell needs */
};

/* How a cell is made. */
enum {
	CELL_READ_ONLY =
		1 << 0,	      /* no writable layer. /tmp, /run, /dev/shm and the home still are */
	CELL_LINGER = 1 << 1, /* the cell outlives its keeper (the server's cells) */
	CELL_DISK_IMAGE = 1 << 2, /* its disk is the image of its name: storage "disk" */
	CELL_KVM = 1 << 3,	  /* with CELL_ENGINE_MICROVM: it has /dev/kvm */
	/* Its refused system calls are counted. Without an engine, of a server. With one more
	 * descriptor: the file of watch_file.h. */
	CELL_WATCH = 1 << 4,
	CELL_TRACE = 1 << 5, /* with CELL_WATCH: starts and ends of programs are recorded, too */
	CELL_TRACE_CALLS = 1 << 6, /* with CELL_TRACE: and some calls */
	CELL_TRACE_FILES = 1 << 7, /* with CELL_TRACE_CALLS: files, and neither of the others */
	CELL_WATCH_ANY = 15 << 4,  /* each of them with those before */
	CELL_FLAGS_ALL = (1 << 8) - 1,
};

enum { CELL_MOUNT_WRITABLE = 1 << 0 };

struct cell_limits {
	uint64_t memory_bytes, cpu_millis, pids; /* 0: not limited */
	uint64_t disk_bytes, inodes;		 /* of the one file system that holds all writes */
	uint64_t nofile;
	uint64_t read_bps, write_bps; /* bytes a second of an image's device. 0: not limited */
};

/* Where a server's layer or mount comes from: the number of a root, and a path below it. "" is the
 * root itself. All zero where the source is a descriptor (cordon run). */
struct cell_source {
	uint32_t root;
	char path[CELL_PATH_MAX];
};

/* The protection in force in a cell, or the protection a machine can enforce. */
struct cell_restrictions {
	uint32_t rootless;	 /* the keeper has no privilege on the host */
	uint32_t ids;		 /* how many ids a cell has: 65,536 or 1 */
	uint32_t cgroup_version; /* 0: none */
	uint32_t limits;	 /* set of CELL_LIMIT_* */
	uint32_t landlock_abi;	 /* 0: the kernel has none */
	uint32_t idmapped;	 /* layers show their owners as the cell's own */
	uint32_t freezer;	 /* cells can be frozen */
	uint32_t redirect;	 /* of a cell: its connections are led to the egress listener */
	uint32_t watched;	 /* of a cell: its refused system calls are counted */
	char no_limits_why[128];
};

/* The space of a cell's writes. All zero where the keeper no longer has their file system. */
struct cell_disk {
	uint64_t bytes, inodes;
	uint32_t bytes_full, inodes_full;
};

/* Is this a place in a cell: "/" or "/a/b", absolute, without empty, "." or ".." parts? It may lead
 * over symlinks. Those are resolved inside the cell. cap bounds the string with its NUL. */
bool cell_is_place(const char *s, size_t cap);

extern const char *const cell_profile_names[CELL_PROFILES];

/* "unknown" for any other number. */
const char *cell_profile_name(enum cell_profile profile);

/* The profile of that name. CELL_PROFILES if there is none. */
enum cell_profile cell_profile_find(const char *name);
