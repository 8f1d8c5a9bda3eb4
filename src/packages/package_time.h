/* package_time.h - times as registries write them: RFC 3339. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKAGE_TIME_MAX 32

/* Reads "2024-01-31T12:00:00Z", with any fraction of a second, a zone ("+01:00"), a space for the
 * T, or no zone (UTC). Milliseconds since 1970; false for other texts and years before 1970. */
bool package_time_read(const char *text, uint64_t *ret_ms);
/* "2024-01-31T12:00:00Z" */
void package_time_write(uint64_t ms, char ret[PACKAGE_TIME_MAX]);
