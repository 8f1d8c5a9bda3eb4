/* keeper_msg.h - channel A: the requests to the keeper and its replies. doc/keeper-protocol.md
 * describes their use. Used by cell/keeper/ops.c, cell/cellctl/keeper_client.c and
 * daemon/cells/keeper_link.c.
 *
 * One SOCK_SEQPACKET message for each request and reply. Requests of one kind have one exact size.
 * Both ends are built together and run on one machine, so layouts are native. Invariants: files of
 * the machine are named by descriptors or, by a server, as paths below roots that its operator
 * chose, never by paths of the machine. Other strings are ids, host names and paths inside of the
 * cell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/cell_spec.h"

#define KEEPER_VERSION 8

/* Descriptors that a keeper is started with. */
enum {
	KEEPER_FD_CHANNEL = 3,
	KEEPER_FD_INIT = 4, /* cordon-init, sealed */
	KEEPER_FD_CGROUP =
		5, /* v1: below cpu, cpuacct, memory, pids, unified. v2: one. May be missing */
	KEEPER_FD_SHIM =
		KEEPER_FD_CGROUP + CELL_CGROUP_DIRS, /* cordon-shim, sealed, may be missing */
	KEEPER_FD_ROOTS,
};

/* Descriptors that PID 1 is started with, beside channel B. It keeps those of a lingering cell open
 * and does not use them. */
enum {
	INIT_FD_ID_SLOT = 6, /* lingering: the lock on its id range, unless rootless */
	INIT_FD_DISK = 7,    /* lingering: the disk's root directory, for a later keeper's DIFF */
	INIT_FD_EGRESS =
		8, /* a transparent TCP socket, not bound yet, not without restrictions.redirect */
	INIT_FD_DIAG = 9,   /* a netlink socket, which PID 1 cannot make itself, see netns.c */
	INIT_FD_GUEST = 10, /* gVisor: cordon-init, sealed, which runs in the guest */
};

/* The uses of a server's root. */
enum {
	KEEPER_ROOT_LAYER = 1 << 0,
	KEEPER_ROOT_READ = 1 << 1,  /* mounts */
	KEEPER_ROOT_WRITE = 1 << 2, /* writable mounts */
	/* Each directory in it may be a layer, by its name, if it is root's and no other user may
	 * write to it. The starter has seen that no other user can change the root itself. */
	KEEPER_ROOT_TEMPLATES = 1 << 3,
	/* Holds the disk of each session with CELL_DISK_IMAGE: a file ID.img, where ID is the name
	 * of its cell. */
	KEEPER_ROOT_DISKS = 1 << 4,
	/* The layers of cordon-storage: a layer is "ID/N" below it, and ID is a directory owned by
	 * root, with mode 0700. File owners are ids of cells. */
	KEEPER_ROOT_LAYERS = 1 << 5,
	/* The volumes of cordon-storage: a mount is "ID/data" below it, or "ID/image", a file
	 * system in a file, whose directory data is mounted. Its owners are those of the cell, as
	 * in layers. */
	KEEPER_ROOT_VOLUMES = 1 << 6,
};

#define KEEPER_LIMIT_FILES 6

/* A file in one of a cell's cgroup directories that holds one limit of the cell. */
struct keeper_limit_file {
	uint32_t dir;	/* index of the directory */
	uint32_t limit; /* offset in struct cell_limits, a limit of 0 is not written */
	uint32_t times; /* the file gets the limit times this. 0: it allows nothing */
	/* The file is missing on kernels that do not count this resource by itself or cannot swap.
	 * Then the other limits cover it. */
	uint32_t optional;
	char name[40];
};

/* How a cell gets into its cgroup and is limited there, which the cgroup version decides. The
 * starter describes it (cell/cellctl/cgroups.h), so the keeper does not know the versions. */
struct keeper_cgroups {
	/* The index of the v2 directory, which freezes and kills a cell. PID 1 is cloned into it.
	 */
	uint32_t unified;
	char enter[8]; /* the file by which PID 1 enters each other directory. "": no others */
	uint32_t nfiles;
	struct keeper_limit_file files[KEEPER_LIMIT_FILES];
};

/* The first message on channel A, from the program that starts the keeper: the results of its
 * search and its preparations. That program is trusted: it runs with the rights of the operator or,
 * cordon run, of the user of the cell. */
struct keeper_setup {
	uint32_t version;
	uint32_t subordinate; /* rootless: ids of the user beside its own, from 1 on */
	uint32_t serve;	      /* for a server: many cells, which linger, sources are below roots */
	uint32_t nroots;      /* serve: directories at KEEPER_FD_ROOTS and up */
	uint32_t root_uses[CELL_ROOTS_MAX]; /* set of KEEPER_ROOT_* */
	struct keeper_cgroups cgroups;
	/* The entries of /proc that every user of the machine can open and cells must not see, and
	 * the directories among all entries: sets of bits, by the index in proc_hidden
	 * (cell_layout.h). */
	uint32_t covers, cover_dirs;
	/* The restrictions of every cell. The keeper adds landlock_abi and, of one cell, idmapped
	 * and redirect. */
	struct cell_restrictions common;
};

enum keeper_op {
	KEEPER_HELLO, /* sent by the keeper when it is ready, or has failed to start */
	KEEPER_CREATE,
	KEEPER_DIFF,
	KEEPER_DESTROY,
	KEEPER_FREEZE,
	KEEPER_CAPTURE,
	KEEPER_VOLUME,
	KEEPER_OPS
};

/* Makes a cell. Descriptors: the cell's end of channel B. Then, with CELL_WATCH, the file of its
 * watcher, and, unless serve, the layers and the sources of the mounts. */
struct keeper_create {
	uint32_t op;
	uint32_t profile;
	uint32_t flags;
	uint32_t uid,
		gid; /* locked: the one user of the cell. Also the owner of --mount trees inside */
	uint32_t nlayers, nmounts;
	uint32_t engine; /* enum cell_engine */
	struct cell_limits limits;
	char id[CELL_ID_MAX];
	char hostname[64];
	char machine_id[CELL_MACHINE_ID + 8]; /* 32 hex digits, /dev/machine-id of the cell */
	/* Read-only layers, the first at "/". Consecutive ones with the same place are a stack, the
	 * lowest first. Each place has a writable layer of its own on top. */
	char layer_at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	struct cell_source layer_from[CELL_LAYERS_MAX];
	struct {
		char at[CELL_PATH_MAX];
		struct cell_source from;
		uint32_t flags;
	} mounts[CELL_MOUNTS_MAX];
};

/* DESTROY and FREEZE name a cell. Also the head of DIFF. */
struct keeper_named {
	uint32_t op;
	uint32_t pid; /* of PID 1. 0: not known. Needed for DIFF, and without cgroups */
	uint32_t on;  /* FREEZE: 1 freezes, 0 thaws */
	char id[CELL_ID_MAX];
};

/* DIFF lists the changes of a cell, CAPTURE writes them as an archive
 * (cell/init/changes/capture.h). One descriptor: the output. Layers as in the cell's CREATE if
 * serve, else none. */
struct keeper_diff {
	struct keeper_named named;
	uint32_t nlayers;
	char layer_at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	struct cell_source layer_from[CELL_LAYERS_MAX];
};

/* Mounts the image of a volume. The answer has one descriptor: the detached mount. */
struct keeper_volume {
	uint32_t op;
	struct cell_source from;
};

union keeper_request {
	uint32_t op;
	struct keeper_create create;
	struct keeper_named named;
	struct keeper_diff diff;
	struct keeper_volume volume;
};

struct keeper_reply {
	uint32_t op;
	uint32_t version;
	struct err err;			       /* code ERR_NONE: it worked */
	struct cell_restrictions restrictions; /* HELLO, CREATE */
	struct cell_disk disk;		       /* DESTROY */
	uint32_t pid;			       /* CREATE: of PID 1, as the keeper sees it */
}; /* CREATE: one descriptor, the pidfd of the cell's PID 1 */

/* Check a request: operation, size, every bound, every string, and the number of descriptors that
 * came with it. Whether a source is below its root is checked when it is opened. Pure. */
int keeper_msg_check(const void *bytes, size_t len, size_t nfds, bool serve,
		     struct err *e) MUST_USE;
