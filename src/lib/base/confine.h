/* confine.h - the rights that a daemon gives up before it reads the first byte of a client: files
 * (Landlock) and system calls (seccomp). Each daemon's main.c has its table of files, and a list of
 * system calls in syscalls.def. A restriction that cannot be installed is an error. Only a kernel
 * without Landlock is accepted, with a warning in the log. */
#pragma once

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/landlock.h"

struct sock_filter;

/* The right to everything in a folder, but no program is executed and no device controlled. */
#define CONFINE_CHANGE (~(uint64_t)(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_FS_IOCTL_DEV))
#define CONFINE_READ ((uint64_t)(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR))

/* Folders, or files, with the same rights. */
struct confine_places {
	const int *fds; /* -1: left out */
	unsigned n;
	uint64_t rights; /* LANDLOCK_ACCESS_FS_*. The kernel's Landlock may know fewer */
};

#define CONFINE_PLACES_MAX 3

struct confine_table {
	int abi;      /* the oldest version of Landlock that can allow the program's needs, or 0 */
	uint64_t net; /* LANDLOCK_NET_*: refused */
	struct confine_places places[CONFINE_PLACES_MAX];
};

/* Set no new privileges, and give up all files outside of the table. Descriptors stay usable. The
 * calling thread is restricted, and each thread that it starts later. */
int confine_files(const struct confine_table *t, struct err *e) MUST_USE;

/* Leave only the system calls that the filter allows, to all threads. */
int confine_calls(const struct sock_filter *filter, size_t n, struct err *e) MUST_USE;
