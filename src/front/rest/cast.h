/* cast.h - the log of an execution as a recording in asciicast v2, a line of JSON for each event.
 * Players such as asciinema read it. Pure.
 *
 * Times are seconds since the start, and never fall. Bytes outside UTF-8 become U+FFFD. A character
 * is never cut: the beginning of one waits for its rest. Lines of a program without a terminal end
 * in CR LF, as on one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/output/output.h"
#include "lib/json/json.h"

#define CAST_ROWS 24 /* if nothing is known of the terminal */
#define CAST_COLS 80
#define CAST_IDLE_S 5 /* players show longer pauses as this */

struct cast {
	bool tty;
	uint64_t start_ms, last_ms;
	/* of standard output, standard error and input: the beginning of a character */
	struct cast_part {
		uint8_t bytes[4];
		size_t n;
		bool cr; /* the last byte was one */
	} parts[3];
};

/* The first line. size: "80x24" or "" for the usual one. title: or "". */
void cast_head(struct json *j, uint64_t start_ms, const char *size, const char *title);
/* The lines of one chunk of the log, perhaps none. */
void cast_chunk(struct cast *c, struct json *j, enum output_stream stream, uint64_t time_ms,
		const uint8_t *bytes, size_t n);
/* The end of the log: what waits for its rest does not wait any more. */
void cast_end(struct cast *c, struct json *j);
/* A marker, shown in the list of a player. */
void cast_mark(struct cast *c, struct json *j, uint64_t time_ms, const char *text);
/* "80x24": columns and rows, each 1 to 4096. */
bool cast_size(const char *text, size_t n, unsigned *ret_cols, unsigned *ret_rows);
