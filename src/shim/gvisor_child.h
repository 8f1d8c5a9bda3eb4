/* gvisor_child.h - the process that becomes runsc. Called by engine_gvisor.c.
 *
 * It is root of the cell at first. It makes a user namespace, in which the shim maps all ids of the
 * cell, and a mount namespace, in which it hides runsc's own files from the guest: in a file system
 * over /dev/shm, which the guest's own /dev covers.
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
