/* fact_lines.h - the facts of events and audit records as JSON. They are stored and passed on as
 * lines "key TAB value". */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "lib/base/own.h"

struct json;

/* Print lines. Conversions: %s (also with a precision), %d, %u, %llu, %zu. The text of a %s behind
 * the tab of its line is a value: tabs and ends of lines in it, which would begin another fact,
 * become '?'. A %s in front of the tab is finished lines, or a part of a key, of the
 * caller. A line that begins with '?' is left out if its value is empty. A value that does
 * not fit is cut, and the lines behind it are left out. cap: at least 2. Returns the length. */
size_t fact_lines_print(char *ret, size_t cap, const char *fmt, ...) PRINTF(3, 4);
size_t fact_lines_vprint(char *ret, size_t cap, const char *fmt, va_list args);

/* Add a member for each line. Keys decide whether values are numbers, not the values: a name may
 * consist of digits. The first line of a key counts, others of the same key are left out. */
void fact_lines_json(struct json *j, const char *lines);
