/* run_results.h - the results of an execution of code in the answer of a tool: texts, pictures, the
 * error with its traceback. The lines come from a cell (front/web/result_view.h) and are not
 * trusted: each is read as strict JSON, and the shown part has a bound. In pieces of whole lines:
 * reading all of them takes longer than a turn of the loop may last. Pure. Called by run_end.c. */
#pragma once

#include "lib/base/buf.h"
#include "lib/base/text_ends.h"
#include "lib/json/json.h"
#include "lib/json/json_tree.h"

#define RUN_RESULTS_BYTES (2U << 20) /* of all lines */
/* Bytes of lines in a piece, and the line that goes beyond. */
#define RUN_RESULTS_PIECE (64U << 10)
#define RUN_RESULTS_IMAGES 4

struct run_results_image {
	const char *type;
	uint8_t *bytes; /* owned */
	size_t n;
};

struct run_results {
	const struct buf *lines; /* borrowed */
	size_t at;
	unsigned nlines, n;
	bool more;	  /* some are not shown */
	struct json list; /* results */
	bool has_error;
	struct json error;
	struct buf text; /* of all results, for clients that show only text */
	unsigned nimages;
	struct run_results_image images[RUN_RESULTS_IMAGES];
};

/* over: there were more lines than these. */
void run_results_init(struct run_results *r, const struct buf *lines, bool over);
void run_results_release(struct run_results *r); /* safe if it is all zero */
/* Read the next lines. True: there are more. */
bool run_results_piece(struct run_results *r);
/* When all are read: the members `results`, `more_results` and, if there was one, `code_error`. */
void run_results_write(struct run_results *r, struct json *to);

/* ---- beginning and end of output
 *
 * The beginning and the end of an execution's output, for the answer of a tool: at most EXCERPT_MAX
 * bytes of text for each stream. The log is read in pieces. The middle is skipped by the heads of
 * its records. */

#define EXCERPT_MAX TEXT_ENDS_MAX
#define EXCERPT_PIECE 1024 /* records of the log in a piece */

struct excerpt {
	int fd; /* of the log, owned. -1: no output */
	uint64_t cursor;
	bool whole; /* the log has all of its bytes */
	struct text_ends streams[2];
	struct buf results; /* the first lines of the stream of results */
	bool more_results;
};
#define EXCERPT_RESULTS (2U << 20)

/* Take fd over. out, err: bytes of both streams. whole: the log has all of them. */
void excerpt_init(struct excerpt *x, int fd, uint64_t out, uint64_t err, bool whole);
void excerpt_release(struct excerpt *x); /* safe if it is all zero */

/* Read a piece of the log. 1: call again. 0: all was read. -1: it cannot be read. */
int excerpt_piece(struct excerpt *x, struct err *e) MUST_USE;

/* Appends the text of a stream (0: stdout, 1: stderr) and returns whether some of it was left out.
 * to has room for EXCERPT_TEXT_MAX bytes. */
#define EXCERPT_TEXT_MAX TEXT_ENDS_TEXT
bool excerpt_text(const struct excerpt *x, unsigned stream, struct buf *to);
