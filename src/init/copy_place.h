/* copy_place.h - puts files and trees where a COPY of a build wants them. Called by copy_in.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

#define COPY_MODE_KEPT UINT32_MAX

struct copy_owner {
	bool set;
	uint32_t uid, gid;
};

/* Sets owner and mode of an entry and of all that is in it; modes of links are never set. fd: of
 * the entry, may be O_PATH. */
int copy_place_prepare(int fd, const struct copy_owner *owner, uint32_t mode,
		       struct err *e) MUST_USE;

/* Moves the entry `name` of directory `top` (opened as fd) to dest. A directory: its content is
 * merged into dest, which is made if it is missing. Another entry: into dest, if that ends in a
 * slash (into) or is a directory, else in its place. Parents are made, for the user of --for. */
int copy_place_put(int top, const char *name, int fd, const char *dest, bool into,
		   struct err *e) MUST_USE;
