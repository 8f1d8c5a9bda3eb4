/* glob.h - texts that fit a pattern with stars, in bounded time. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GLOB_MAX 240 /* bytes of a pattern; a longer one fits nothing */

/* '**': any bytes, also none. '*': the same; if segments, any but '/', and not none where it is all
 * that stands between two slashes or behind the last one. The rest must be equal. */
bool glob_fits(const char *pattern, const char *text, size_t len, bool segments);
/* Needs more than a look at both ends: time is GLOB_MAX / 64 steps for each byte of the text. */
bool glob_is_slow(const char *pattern);
