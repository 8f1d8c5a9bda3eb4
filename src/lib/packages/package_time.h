/* package_time.h - reads and writes times in the form of registries, RFC 3339. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKAGE_TIME_MAX 32

/* Read "2024-01-31T12:00:00Z", with any fraction of a second, a zone ("+01:00"), a space instead of
 * the T, or no zone (UTC). *ret_ms: since 1970. False: another text, or a year before 1970. */
bool package_time_read(const char *text, uint64_t *ret_ms);
/* Write "2024-01-31T12:00:00Z". */
void package_time_write(uint64_t ms, char ret[PACKAGE_TIME_MAX]);
