/* show.h - text from the server, for a terminal: control characters are escaped. Pure but for the
 * FILE it prints to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Write text with control characters as \n, \t, \x1b, \u0080 and bytes other than UTF-8 as \xNN.
 * Cut at cap, never inside a character or an escape. Return the columns it takes, one for each
 * character. */
size_t show_escape(const char *text, char *ret, size_t cap);
/* Write the escaped text to a FILE, whole. */
void show_text(const char *text, FILE *to);
/* Write the escaped text, but keep ends of lines. The last line is ended, too. */
void show_lines(const char *text, FILE *to);

/* "7s", "12m", "3h", "5d". "-" if negative. */
void show_span(int64_t ms, char *ret, size_t cap);

/* Wall-clock time, in milliseconds since 1970. */
int64_t show_now_ms(void);
