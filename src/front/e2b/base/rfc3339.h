/* rfc3339.h - times as E2B's clients write and read them. Pure. */
#pragma once

#include <stdint.h>

#include "lib/base/own.h"

#define RFC3339_MAX 32

/* Milliseconds since 1970 as 2026-11-15T04:51:51.123Z. A time after the year 9999 is written as
 * the end of that year. */
void rfc3339_write(uint64_t ms, char ret[RFC3339_MAX]);
/* Nanoseconds since 1970, or before it, with all their digits. */
void rfc3339_write_ns(int64_t ns, char ret[RFC3339_MAX]);

/* Microseconds since 1970, without further digits. -1: the text is no such time, or lies before
 * 1970. */
int rfc3339_read(const char *text, uint64_t *ret_us) MUST_USE;
