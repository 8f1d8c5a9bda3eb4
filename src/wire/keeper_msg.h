/* keeper_msg.h - channel A: what the keeper can be asked. doc/keeper-protocol.md tells the story.
 *
 * One SOCK_SEQPACKET message per request and per reply; every request of one kind has one exact
 * size. Both ends are built together and run on one machine, so layouts are native. Objects are
 * named by descriptors or, by a server, as places below directories that its operator gave: never
 * by host paths. The other strings are ids, host names and places inside the cell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define KEEPER_VERSION 2
#define KEEPER_ID_MAX 24
#define KEEPER_MACHINE_ID 32
#define KEEPER_PATH_MAX 256
#define KEEPER_PLACE_MAX 64
#define KEEPER_LAYERS_MAX 8
#define KEEPER_MOUNTS_MAX 8
#define KEEPER_IDS 65536U /* ids of one cell */
#define KEEPER_ROOTS_MAX 16
#define KEEPER_CGROUP_DIRS 5
#define KEEPER_CGROUP_UNIFIED 4 /* v1: a v2 hierarchy beside it, for freezing and killing */
#define KEEPER_CGROUP_PREFIX "cordon-"

/* Descriptors that a keeper is started with. */
enum {
	KEEPER_FD_CHANNEL = 3,
	KEEPER_FD_INIT = 4,   /* cordon-init, sealed */
	KEEPER_FD_CGROUP = 5, /* v1: below cpu, cpuacct, memory, pids, unified; v2: one. May lack */
	KEEPER_FD_ROOTS = KEEPER_FD_CGROUP + KEEPER_CGROUP_DIRS,
};

/* Descriptors that PID 1 is started with, beside channel B. Those of a lingering cell it keeps to
 * itself and does nothing with them. */
enum {
	KEEPER_INIT_SLOT_FD = 6, /* lingering: the lock on its id range; not if rootless */
	KEEPER_INIT_STORE_FD =
		7, /* lingering: the store's root directory, for a later keeper's DIFF */
	KEEPER_INIT_DOOR_FD =
		8, /* a transparent TCP socket, not bound yet; not without walls.door */
};

/* What a server's root may be used for. */
enum {
	KEEPER_ROOT_LAYER = 1 << 0,
	KEEPER_ROOT_READ = 1 << 1,  /* mounts */
	KEEPER_ROOT_WRITE = 1 << 2, /* writable mounts */
};

/* What whoever starts a keeper has found out and prepared: waits on channel A when the keeper
 * starts. The starter is trusted: it is the operator or, for cordon run, the very user the keeper
 * works for. */
struct keeper_setup {
	uint32_t version;
	uint32_t cgroup_version; /* 0: none */
	uint32_t limits;	 /* set of KEEPER_LIMIT_* */
	uint32_t rootless;	 /* it is root of a user namespace only */
	uint32_t subordinate;	 /* rootless: ids of the user beside his own, from 1 on */
	uint32_t serve;		 /* for a server: many cells, that linger, of sources below roots */
	uint32_t nroots;	 /* serve: directories at KEEPER_FD_ROOTS and up */
	uint32_t root_uses[KEEPER_ROOTS_MAX]; /* set of KEEPER_ROOT_* */
	char no_limits_why[128];
};

enum keeper_op {
	KEEPER_HELLO, /* sent by the keeper, unasked, when it is ready or cannot be */
	KEEPER_CREATE,
	KEEPER_DIFF,
	KEEPER_DESTROY,
	KEEPER_FREEZE,
	KEEPER_OPS
};

enum keeper_profile { KEEPER_STANDARD, KEEPER_LOCKED, KEEPER_PROFILES };

/* Limits that need a cgroup; a set is what the machine can enforce or what is in force. */
enum {
	KEEPER_LIMIT_MEMORY = 1 << 0,
	KEEPER_LIMIT_CPU = 1 << 1,
	KEEPER_LIMIT_PIDS = 1 << 2,
	KEEPER_LIMIT_ALL = (1 << 3) - 1,
};

/* Flags of CREATE. */
enum {
	KEEPER_READ_ONLY =
		1 << 0,		/* no writable layer; /tmp, /run, /dev/shm and the home still are */
	KEEPER_LINGER = 1 << 1, /* the cell outlives its keeper (the server's cells) */
	KEEPER_FLAGS_ALL = (1 << 2) - 1,
};

enum { KEEPER_MOUNT_WRITABLE = 1 << 0 };

struct keeper_limits {
	uint64_t memory_bytes, cpu_millis, pids; /* 0: not limited */
	uint64_t disk_bytes, inodes;		 /* of the one file system that holds all writes */
	uint64_t nofile;
};

/* A server's layer or mount: below which root, and where; "" is the root itself. All zero if the
 * keeper is no server's. */
struct keeper_source {
	uint32_t root;
	char path[KEEPER_PATH_MAX];
};

struct keeper_create {
	uint32_t op;
	uint32_t profile;
	uint32_t flags;
	uint32_t uid,
		gid; /* locked: the one user of the cell. Also who owns --mount trees inside */
	uint32_t nlayers, nmounts;
	uint32_t zero;
	struct keeper_limits limits;
	char id[KEEPER_ID_MAX];
	char hostname[64];
	char machine_id[KEEPER_MACHINE_ID + 8]; /* 32 hex digits; /dev/machine-id of the cell */
	/* Read-only layers, the first at "/", each with a writable one of its own on top. */
	char layer_at[KEEPER_LAYERS_MAX][KEEPER_PLACE_MAX];
	struct keeper_source layer_from[KEEPER_LAYERS_MAX];
	struct {
		char at[KEEPER_PATH_MAX];
		struct keeper_source from;
		uint32_t flags;
	} mounts[KEEPER_MOUNTS_MAX];
}; /* descriptors: the cell's end of channel B; then, unless serve, the layers, then the mounts'
      sources */

/* DESTROY and FREEZE name a cell; also the head of DIFF. */
struct keeper_named {
	uint32_t op;
	uint32_t pid; /* of PID 1; 0: not known. Only DIFF, or no cgroups, make a server need it */
	uint32_t on;  /* FREEZE: 1 freezes, 0 thaws */
	char id[KEEPER_ID_MAX];
};

/* With one descriptor: where the list goes. Layers as in the cell's CREATE if serve, else none. */
struct keeper_diff {
	struct keeper_named named;
	uint32_t nlayers;
	char layer_at[KEEPER_LAYERS_MAX][KEEPER_PLACE_MAX];
	struct keeper_source layer_from[KEEPER_LAYERS_MAX];
};

union keeper_request {
	uint32_t op;
	struct keeper_create create;
	struct keeper_named named;
	struct keeper_diff diff;
};

/* What is in force in a cell or possible on a machine. */
struct keeper_walls {
	uint32_t rootless;	 /* the keeper has no privilege on the host */
	uint32_t ids;		 /* how many ids a cell has: 65,536 or 1 */
	uint32_t cgroup_version; /* 0: none */
	uint32_t limits;	 /* set of KEEPER_LIMIT_* */
	uint32_t landlock_abi;	 /* 0: the kernel has none */
	uint32_t idmapped;	 /* layers show their owners as the cell's own */
	uint32_t freezer;	 /* cells can be frozen */
	uint32_t door;		 /* CREATE: the kernel can lead the cell's connections to us */
	char no_limits_why[128];
};

/* Of the store; all zero where the keeper no longer has it. */
struct keeper_disk {
	uint64_t bytes, inodes;
	uint32_t bytes_full, inodes_full;
};

struct keeper_reply {
	uint32_t op;
	uint32_t version;
	struct err err;		   /* code ERR_NONE: it worked */
	struct keeper_walls walls; /* HELLO, CREATE */
	struct keeper_disk disk;   /* DESTROY */
	uint32_t pid;		   /* CREATE: of PID 1, as the keeper sees it */
};				   /* CREATE: one descriptor, the pidfd of the cell's PID 1 */

/* Is this a well-formed request? Checks op, size, every bound, every string; nfds is how many
 * descriptors came along. Whether a source is below its root, only the kernel can say. Pure. */
int keeper_msg_check(const void *bytes, size_t len, size_t nfds, bool serve,
		     struct err *e) MUST_USE;

/* Is this a place in a cell: "/" or "/a/b", absolute, without empty, "." or ".." parts? It may lead
 * over symlinks; those are resolved inside the cell. cap bounds the string with its NUL. */
bool keeper_msg_is_place(const char *s, size_t cap);

const char *keeper_profile_name(enum keeper_profile profile);
