/* pax_record.h - writes records of pax extensions, "LENGTH KEYWORD=VALUE\n", for archives that have
 * more in them than tar_head.h writes: attributes, times, holes of sparse files. Pure. Called by
 * init/capture_out.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "own.h"

#define PAX_RECORD_XATTR "SCHILY.xattr."

/* Each appends a record, and returns its length; 0 if it does not fit into cap bytes. A time is
 * seconds, with nanoseconds as a fraction; s may be negative, and then ns leads towards 0. */
size_t pax_record_put(char *at, size_t cap, const char *key, const void *value,
		      size_t len) MUST_USE;
size_t pax_record_number(char *at, size_t cap, const char *key, uint64_t value) MUST_USE;
size_t pax_record_time(char *at, size_t cap, const char *key, int64_t s, uint32_t ns) MUST_USE;
