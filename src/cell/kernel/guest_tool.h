/* guest_tool.h - runs programs of the machine (apt-get, dpkg-deb, lz4, zstd, xz) for the
 * installation of a guest kernel. Called by `cordon guest` only, never by a server. */
#pragma once

#include "lib/base/err.h"

struct guest_tool {
	const char *const *argv; /* ends with NULL, argv[0] is found in the usual directories */
	int dir;		 /* borrowed: its working directory. -1: the caller's */
	int in;			 /* borrowed: its standard input. -1: /dev/null */
	int out;		 /* borrowed: its standard output. -1: /dev/null */
};

/* Run it and wait. ERR_SYSTEM if it is missing or fails, with the end of its standard error. */
int guest_tool_run(const struct guest_tool *t, struct err *e) MUST_USE;

/* Run a tool without directory and input. Its output as text, at most cap - 1 bytes. */
int guest_tool_read(const char *const *argv, char *ret_text, size_t cap, struct err *e) MUST_USE;
