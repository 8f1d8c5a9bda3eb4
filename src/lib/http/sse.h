/* sse.h - writes one event of a text/event-stream. Pure. */
#pragma once

#include <stddef.h>

#include "lib/base/own.h"

/* Write an event, NUL-terminated. Event and id may be NULL. Each line of data (ended by LF, CR LF
 * or CR) becomes a line of its own, so that data cannot end the event or begin another. Return the
 * length, or -1: it does not fit, or event or id contain a CR or LF. */
int sse_event(char *ret, size_t cap, const char *event, const char *id, const char *data,
	      size_t len) MUST_USE;
