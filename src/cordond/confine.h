/* confine.h - drops what cordond does not need, before the first byte from the network is read.
 * What cannot be installed is an error, but for Landlock on a kernel without it, which is a warning
 * in the log. */
#pragma once

#include "err.h"

#define CONFINE_FOLDERS 2

struct confine_folders {
	int folders[CONFINE_FOLDERS]; /* all may be done below these: state and run */
	const int *read;	      /* below these it may be read: cgroups; -1 is left out */
	unsigned nread;
};

/* Files: only those (and what is open already). No new privileges. No TCP connection or listener of
 * its own. It holds for the calling thread and those that it starts later. */
int confine_files(const struct confine_folders *f, struct err *e) MUST_USE;

/* System calls: those of syscalls.def, in all threads. No thread can be started from then on. */
int confine_calls(struct err *e) MUST_USE;
