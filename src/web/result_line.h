/* result_line.h - checks one line of results, in pieces, and finds its type. Pure.
 *
 * The line comes from a cell. It passes if it is one JSON object (RFC 8259, strictly: UTF-8, no
 * control bytes) that every client can read: nested at most RESULT_LINE_DEPTH times, without
 * halves of characters (a lone \ud800) and without numbers that a double cannot hold (1e999).
 * Each byte is read once, so a piece of n bytes takes a time in proportion to n. Of members with
 * the same name the first one counts. Called by result_view.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESULT_LINE_DEPTH 64
#define RESULT_LINE_NUMBER_MAX 1024 /* bytes of a number */

enum result_line_type {
	RESULT_LINE_OTHER,
	RESULT_LINE_RESULT,
	RESULT_LINE_ERROR,
	RESULT_LINE_COUNT /* has execution_count, too */
};

struct result_line {
	const char *p, *end; /* borrowed: what is not read yet */
	int state;
	bool is_name;	  /* the text that is being read is the name of a member */
	unsigned depth;	  /* open brackets */
	uint64_t arrays;  /* the lowest bit: the innermost open bracket is an array's */
	int member;	  /* of the line's object, which is being read */
	unsigned seen;	  /* members */
	const char *from; /* of the text that is being read, behind its quote */
	enum result_line_type type;
	bool has_count;
	uint64_t count;
};

void result_line_begin(struct result_line *l, const char *line, size_t n);

/* Reads at least a token and about max bytes at most. 1: there is more; 0: the line passes, and
 * type, has_count and count are set; -1: it does not. */
int result_line_piece(struct result_line *l, size_t max);
