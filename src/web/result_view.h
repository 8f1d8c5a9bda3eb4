/* result_view.h - the results of an execution of code (its stream OUTPUT_RESULT) as members of a
 * JSON object: "results", "results_dropped", "code_error" and "execution_count".
 *
 * The stream has lines of JSON that the interpreter in the cell wrote, and is as hostile as all
 * output: a line that is no JSON object with a known "type", that is longer than the bound, or that
 * is one too many is left out and counted. What is shown is strict JSON in UTF-8 of bounded depth.
 * In pieces, in which a line may end or not, since it may be some MiB. The lines are released with
 * the last piece. Called by api/inline_output.c. */
#pragma once

#include "buf.h"
#include "json.h"
#include "result_line.h"

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
	uint64_t count;		 /* of number_of_executions; 0: none */
	size_t error, error_len; /* in lines; len 0: none */
};

void result_view_init(struct result_view *v);
void result_view_release(struct result_view *v);

/* The next bytes of the stream. */
void result_view_take(struct result_view *v, const uint8_t *bytes, size_t n);

/* Writes a piece into the object that is open. 1: there is more; 0: all members are written. */
int result_view_piece(struct result_view *v, struct json *j);
