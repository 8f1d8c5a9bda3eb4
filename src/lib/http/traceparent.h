/* traceparent.h - the header of W3C Trace Context that names a trace and the span that asks:
 * "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TRACEPARENT_MAX 56 /* with its NUL */

/* Copy a valid text, and the first 55 bytes of a later version. False: the text is no
 * traceparent, or an id has zeros only. */
bool traceparent_read(const char *text, size_t len, char ret[TRACEPARENT_MAX]);
