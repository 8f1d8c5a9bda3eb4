/* host_size.h - how large the template host is: what a root image of the machine's /usr takes, for
 * sessions at level microvm. Known before an image is begun: see
 * doc/decisions/037-the-host-at-level-microvm.md. Called by serve_levels.c, doctor_levels.c and
 * level.c. */
#pragma once

#include <stdint.h>

#include "err.h"

/* Bytes of a root image of /usr, a little more than it will have. If all that the file system of
 * /usr holds is not more than `enough`, that is the answer, and no file is looked at. */
int host_size(uint64_t enough, uint64_t *ret_bytes, struct err *e) MUST_USE;

/* Bytes that are free for an ordinary program in the file system of a directory; 0: not known. */
uint64_t host_size_room(const char *dir);
