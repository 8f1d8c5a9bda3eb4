/* gvisor_child.h - the process that becomes runsc. Called by engine_gvisor.c.
 *
 * It is root of the cell at first. It makes a user namespace, in which the shim maps all ids of the
 * cell, and a mount namespace with a file system over /dev/shm. In that are runsc's own files and
 * GVISOR_ROOT, the cell's root directory with empty directories over /proc and /dev. What must not
 * change: the machine's procfs, the cell's devices and runsc's files are nowhere below GVISOR_ROOT,
 * so they do not appear however the guest mounts its root.
 *
 * Over sync_fd (SOCK_SEQPACKET, close-on-exec): the child sends one byte when the user namespace is
 * there; the shim answers with one byte when the ids are mapped; then comes the end of file, when
 * runsc runs, or a struct err. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "err.h"

struct gvisor_child {
	/* Borrowed. */
	int sync_fd;
	int console;   /* standard output and error */
	int stream_fd; /* becomes the guest's stream */
	int runsc_fd;
	int init_fd;	    /* cordon-init, which becomes PID 1 of the guest */
	const char *bundle; /* gvisor_bundle.h */
	size_t bundle_len;
};

/* In the new process; does not return. */
void NORETURN gvisor_child_run(const struct gvisor_child *c);

/* In the shim: maps every id of the cell to the same id in the child's user namespace. */
int gvisor_child_map(pid_t pid, struct err *e) MUST_USE;
