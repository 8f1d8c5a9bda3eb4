/* confine.h - gives up what cordond does not need, in one call, before the first byte from the
 * network is read. What cannot be installed is an error. */
#pragma once

#include "err.h"

#define CONFINE_FOLDERS 2

struct confine_files {
	int folders[CONFINE_FOLDERS]; /* all may be done below these: state and run */
	const int *read;	      /* below these it may be read: cgroups; -1 is left out */
	unsigned nread;
};

/* Files: only those (and what is open already). System calls: those of syscalls.def. No new
 * privileges. No TCP connection or listener of its own. */
int confine(const struct confine_files *f, struct err *e) MUST_USE;
