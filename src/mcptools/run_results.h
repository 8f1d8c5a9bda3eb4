/* run_results.h - the results of an execution of code in the answer of a tool: texts, pictures, the
 * error with its traceback. The lines come from a cell (web/result_view.h) and are not trusted:
 * each is read as strict JSON, and what is shown has a bound. In pieces of whole lines: reading all
 * of them takes longer than a turn of the loop may last. Pure. Called by run_end.c. */
#pragma once

#include "buf.h"
#include "json.h"
#include "json_tree.h"

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
/* Reads the next lines. True: there are more. */
bool run_results_piece(struct run_results *r);
/* When all are read: the members `results`, `more_results` and, if there was one, `code_error`. */
void run_results_write(struct run_results *r, struct json *to);
