/* clock.h - monotonic nanoseconds for durations, the wall clock for records. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CLOCK_MS 1000000ULL

uint64_t clock_now_ns(void);
/* Milliseconds since 1970, by the wall clock. */
uint64_t clock_wall_ms(void);

/* Now in UTC as 2026-11-15T04:51:51.123Z. */
void clock_stamp(char *ret_text, size_t cap);
