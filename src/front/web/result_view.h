/* result_view.h - the results of an execution of code (its stream OUTPUT_RESULT) as members of a
 * JSON object: "results", "results_dropped", "code_error" and "execution_count".
 *
 * The stream has lines of JSON that the interpreter in the cell wrote, and is as hostile as all
 * output: a line other than a JSON object with a known "type", a line longer than the bound, or one
 * too many is left out and counted. The shown part is strict JSON in UTF-8 of bounded depth. In
 * pieces, in which a line may end or not, since it may be some MiB. The lines are released with the
 * last piece. Called by front/rest/inline_output.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/json/json.h"

/* ---- lines of results
 *
 * Checks one line of results, in pieces, and finds its type. Pure.
 *
 * The line comes from a cell. It passes if it is one JSON object (RFC 8259, strictly: UTF-8, no
 * control bytes) that every client can read: nested at most RESULT_LINE_DEPTH times, without
 * halves of characters (a lone \ud800) and without numbers that a double cannot hold (1e999).
 * Each byte is read once, so a piece of n bytes takes a time in proportion to n. Of members with
 * the same name the first one counts. Called by result_view.c. */

#define RESULT_LINE_DEPTH 64
#define RESULT_LINE_NUMBER_MAX 1024 /* bytes of a number */

enum result_line_type {
	RESULT_LINE_OTHER,
	RESULT_LINE_RESULT,
	RESULT_LINE_ERROR,
	RESULT_LINE_COUNT /* has execution_count, too */
};

struct result_line {
	const char *p, *end; /* borrowed: the unread part */
	int state;
	bool is_name;	  /* the current text is the name of a member */
	unsigned depth;	  /* open brackets */
	uint64_t arrays;  /* the lowest bit: the innermost open bracket is an array's */
	int member;	  /* of the line's object: the current one */
	unsigned seen;	  /* members */
	const char *from; /* of the current text, behind its quote */
	enum result_line_type type;
	bool has_count;
	uint64_t count;
};

void result_line_begin(struct result_line *l, const char *line, size_t n);

/* Read at least a token and about max bytes at most. 1: there is more. 0: the line passes, and
 * type, has_count and count are set. -1: it does not. */
int result_line_piece(struct result_line *l, size_t max);

#define RESULT_VIEW_MAX (8U << 20)    /* bytes of all lines */
#define RESULT_VIEW_LINES 1000	      /* results */
#define RESULT_VIEW_PIECE (64U << 10) /* bytes of lines in a piece */
#define RESULT_VIEW_JSON_MAX (2 * RESULT_VIEW_MAX + 4096)

struct result_view {
	struct buf lines;
	bool over;    /* there was more than RESULT_VIEW_MAX */
	bool begun;   /* the member "results" is open */
	size_t at;    /* lines before it are written */
	bool in_line; /* the line at `at` is being checked */
	size_t line_len;
	struct result_line line;
	size_t n; /* results written */
	uint64_t dropped;
	uint64_t count;		 /* of number_of_executions. 0: none */
	size_t error, error_len; /* in lines. len 0: none */
};

void result_view_init(struct result_view *v);
void result_view_release(struct result_view *v);

/* The next bytes of the stream. */
void result_view_take(struct result_view *v, const uint8_t *bytes, size_t n);

/* Write a piece into the open object. 1: there is more. 0: all members are written. */
int result_view_piece(struct result_view *v, struct json *j);
