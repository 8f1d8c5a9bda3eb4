/* glob.h - matches texts with star patterns in bounded time. Pure. Called by path.c and
 * policy_request.c. Patterns come from policies, texts from programs in cells. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GLOB_MAX 240 /* bytes of a pattern. A longer pattern matches nothing */

/* '**' matches any bytes, or none. '*' matches the same bytes, but with `segments` it stops at '/',
 * and as a whole segment it needs at least one byte. Other bytes must be equal. */
bool glob_fits(const char *pattern, const char *text, size_t len, bool segments);
/* Must the middle of the text be searched, too? Then the time is GLOB_MAX / 64 steps for each byte
 * of the text. */
bool glob_is_slow(const char *pattern);
