/* server_words.h - what an MCP server writes to its standard error: logged, and its last lines kept
 * for the report of its end. Called by stdio_server.c.
 *
 * The log and the report are output of a program of the session, in which cordond masks whole
 * values of secrets. So nothing here divides a line, unless it is longer than the bounds: of the
 * kept lines one whose beginning is gone is left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

#define SERVER_WORDS 2048 /* bytes of the lines that are kept */

struct server_words {
	const char *name; /* of the server */
	char last[SERVER_WORDS];
	size_t n;
	bool cut; /* last[0] is not the beginning of what was written */
	size_t total;
	char line[LOG_VALUE_MAX];
	size_t nline;
	bool waited; /* the line has been there at the last tick */
};

/* The next bytes. */
void server_words_add(struct server_words *w, const char *bytes, size_t n);
/* About once a second: logs a line that does not end. */
void server_words_tick(struct server_words *w);
/* There will be no more. */
void server_words_end(struct server_words *w);

/* The last lines as they were written, but for control characters, with a NUL; "" if there are
 * none.
 */
void server_words_last(const struct server_words *w, char ret[SERVER_WORDS + 1]);
