/* confine_daemon.h - the rights that cordond gives up, before it reads the first byte from the
 * network. A cordond under an attacker's control can open no file outside of two folders, execute
 * no program and make no connection. Called by main.c. */
#pragma once

#include "lib/base/confine.h"

#define CONFINE_FOLDERS 2

struct confine_folders {
	int folders[CONFINE_FOLDERS]; /* state and run: cordond may change everything below them */
	const int *read;	      /* the cgroups, for reading. -1 is left out */
	unsigned nread;
};

/* Give up all files but those of the folders and /dev/null, and TCP. Call this before
 * confine_daemon_calls(), so that a thread can be started in between. */
int confine_daemon_files(const struct confine_folders *f, struct err *e) MUST_USE;

/* Leave only the system calls of syscalls.def. No thread can be started from then on. */
int confine_daemon_calls(struct err *e) MUST_USE;
