/* keeper_msg.h - channel A: what the keeper can be asked. doc/keeper-protocol.md tells the story.
 *
 * One SOCK_SEQPACKET message per request and per reply; every request of one kind has one exact
 * size. Both ends are built together and run on one machine, so layouts are native. Objects are
 * named by descriptors, never by host paths; the strings are ids, host names and places inside the
 * cell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define KEEPER_VERSION 1
#define KEEPER_ID_MAX 24
#define KEEPER_PATH_MAX 256
#define KEEPER_PLACE_MAX 64
#define KEEPER_LAYERS_MAX 8
#define KEEPER_MOUNTS_MAX 8
#define KEEPER_IDS 65536U /* ids of one cell */
#define KEEPER_CGROUP_DIRS 4
#define KEEPER_CGROUP_PREFIX "cordon-"

/* Descriptors that a keeper is started with. */
enum {
	KEEPER_FD_CHANNEL = 3,
	KEEPER_FD_CGROUP =
		4, /* v1: below cpu, cpuacct, memory, pids; v2: one. Absent where missing */
};

/* What whoever starts a keeper has found out and prepared; its one argument, in hex. The starter is
 * trusted: it is the operator or, for cordon run, the very user the keeper works for. */
struct keeper_setup {
	uint32_t version;
	uint32_t cgroup_version; /* 0: none */
	uint32_t limits;	 /* set of KEEPER_LIMIT_* */
	uint32_t rootless;	 /* it is root of a user namespace only */
	uint32_t subordinate;	 /* rootless: ids of the user beside his own, from 1 on */
	char no_limits_why[128];
};

enum keeper_op {
	KEEPER_HELLO, /* sent by the keeper, unasked, when it is ready or cannot be */
	KEEPER_CREATE,
	KEEPER_DIFF,
	KEEPER_DESTROY,
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
	/* Read-only layers, the first at "/", each with a writable one of its own on top. */
	char layer_at[KEEPER_LAYERS_MAX][KEEPER_PLACE_MAX];
	struct {
		char at[KEEPER_PATH_MAX];
		uint32_t flags;
	} mounts[KEEPER_MOUNTS_MAX];
}; /* descriptors: the cell's end of channel B, then the layers, then the mounts' sources */

/* DIFF (with one descriptor: where the list goes) and DESTROY name a cell. */
struct keeper_named {
	uint32_t op;
	char id[KEEPER_ID_MAX];
};

union keeper_request {
	uint32_t op;
	struct keeper_create create;
	struct keeper_named named;
};

/* What is in force in a cell or possible on a machine. */
struct keeper_walls {
	uint32_t rootless;	 /* the keeper has no privilege on the host */
	uint32_t ids;		 /* how many ids a cell has: 65,536 or 1 */
	uint32_t cgroup_version; /* 0: none */
	uint32_t limits;	 /* set of KEEPER_LIMIT_* */
	uint32_t landlock_abi;	 /* 0: the kernel has none */
	uint32_t idmapped;	 /* layers show their owners as the cell's own */
	char no_limits_why[128];
};

struct keeper_stat {
	uint64_t cpu_us, memory_peak_bytes, pids_peak; /* 0: not known */
	uint64_t oom_kills, pids_refused;
	uint64_t disk_bytes, inodes;
	uint32_t disk_full, inodes_full;
};

struct keeper_reply {
	uint32_t op;
	uint32_t version;
	struct err err;		   /* code ERR_NONE: it worked */
	struct keeper_walls walls; /* HELLO, CREATE */
	struct keeper_stat stat;   /* DESTROY */
};				   /* CREATE: one descriptor, the pidfd of the cell's PID 1 */

/* Is this a well-formed request? Checks op, size, every bound, every string; nfds is how many
 * descriptors came along. Pure. */
int keeper_msg_check(const void *bytes, size_t len, size_t nfds, struct err *e) MUST_USE;

/* Is this a place in a cell: "/" or "/a/b", absolute, without empty, "." or ".." parts? It may lead
 * over symlinks; those are resolved inside the cell. cap bounds the string with its NUL. */
bool keeper_msg_is_place(const char *s, size_t cap);

const char *keeper_profile_name(enum keeper_profile profile);
