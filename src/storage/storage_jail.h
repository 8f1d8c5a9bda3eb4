/* storage_jail.h - the rights that cordon-storage gives up at its start, and those that a worker
 * gives up beyond.
 *
 * After storage_jail_enter() the process is root of a user namespace of its own, whose ids 0 to
 * 65535 are those of the machine (for a rootless server: all ids of the keepers' namespace). The
 * storage folder is at STORAGE_JAIL_TOP, and is all it can write to or read, but for programs and
 * libraries of the machine. It is the first process of its pid namespace. Called by main.c, once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define STORAGE_JAIL_TOP "/storage"
/* Read-only, for FOLD: what layers stand on. */
#define STORAGE_JAIL_TEMPLATES "/templates"
/* With the number of a place behind it. 0: the folder with the root directories. */
#define STORAGE_JAIL_HOST "/host"

/* How ids of a cell are stored on disk. */
struct storage_ids {
	bool single;	/* there is one id: everything belongs to it */
	uint32_t shift; /* otherwise id i of a cell is i + shift on disk */
};

/* Take the folders that the program was started with (storage_msg.h). Return in a new process.
 * The old one waits for its end, and ends with its status. */
int storage_jail_enter(struct err *e) MUST_USE;

/* Lock the storage folder. The lock is held until every process of this program has exited, so the
 * next one cannot start before that. Wait. The descriptor becomes number `at`. */
int storage_jail_lock(int at, struct err *e) MUST_USE;

/* Capabilities and the filter of system calls of the program. */
int storage_jail_confine(struct err *e) MUST_USE;

/* In a runner: Landlock. Not for a runner on a mount that came with its request, outside the
 * storage folder: its worker is confined to that mount. */
int storage_jail_confine_runner(struct err *e) MUST_USE;

/* The files a worker can reach. Descriptors are borrowed. -1 in a list: none. */
struct storage_worker_dirs {
	int dir;	  /* can be changed. Becomes its root directory */
	const int *lower; /* can be read */
	unsigned nlower;
	bool links; /* files of lower can be linked into dir. Landlock then must allow it to change
		     * them, too */
	const int *read; /* can be read */
	unsigned nread;
};

/* In a worker: it can reach no other files, start no process and make no socket. */
int storage_jail_confine_worker(const struct storage_worker_dirs *d, struct err *e) MUST_USE;

struct storage_ids storage_jail_ids(void);
