/* excerpt.h - the beginning and the end of what an execution wrote, for the answer of a tool: at
 * most EXCERPT_MAX bytes of text for each stream. The log is read in pieces; what lies between is
 * skipped by the heads of its records. */
#pragma once

#include "text_ends.h"

#define EXCERPT_MAX TEXT_ENDS_MAX
#define EXCERPT_PIECE 1024 /* records of the log in a piece */

struct excerpt {
	int fd; /* of the log, owned; -1: there is no output */
	uint64_t cursor;
	bool whole; /* the log has all of its bytes */
	struct text_ends streams[2];
	struct buf results; /* the first lines of the stream of results */
	bool more_results;
};
#define EXCERPT_RESULTS (2U << 20)

/* Takes fd over. out, err: bytes of both streams; whole: the log has all of them. */
void excerpt_init(struct excerpt *x, int fd, uint64_t out, uint64_t err, bool whole);
void excerpt_release(struct excerpt *x); /* safe if it is all zero */

/* Reads a piece of the log. 1: there is more to do; 0: all was read; -1: it cannot be read. */
int excerpt_piece(struct excerpt *x, struct err *e) MUST_USE;

/* Appends the text of a stream (0: stdout, 1: stderr) and returns whether some of it was left out.
 * to has room for EXCERPT_TEXT_MAX bytes. */
#define EXCERPT_TEXT_MAX TEXT_ENDS_TEXT
bool excerpt_text(const struct excerpt *x, unsigned stream, struct buf *to);
