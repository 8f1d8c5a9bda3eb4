/* guest_mapping.h - where the memory of a guest is in its engine's process: one private mapping, of
 * the sealed memory file that it was cloned from (the base) or, after a cold start, of /dev/zero.
 * Used by guest_memory.c, which reads it, and changed_pages.c, which writes to it. The shim may do
 * both because the engine is its child and has the same user.
 *
 * The engine is not trusted: what it maps there is taken as it is, and the files of /proc are read
 * with fixed buffers. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* base: -1 after a cold start. ERR_NOT_FOUND: the process has no such mapping. */
int guest_mapping_find(pid_t engine, int base, uint64_t size, uint64_t *ret_start,
		       struct err *e) MUST_USE;

/* Opens a file of /proc/PID: "mem", "pagemap". mode: O_RDONLY, O_RDWR. */
int guest_mapping_open(pid_t engine, const char *file, int mode, struct err *e) MUST_USE;

/* Writes n bytes to `at` of a memory file or of /proc/PID/mem, or fails. */
int guest_mapping_write(int fd, const uint8_t *bytes, size_t n, uint64_t at,
			struct err *e) MUST_USE;
