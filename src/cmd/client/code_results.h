/* code_results.h - the results of code as its client shows them: the stream of lines of JSON that
 * an attached execution has beside its output. The text of each result goes to stdout. Images and
 * documents go to files, if a folder is given. The session's data is not trusted: lines, files and
 * their bytes are bounded, malformed lines are skipped, and stderr has a word about it. Called by
 * attach.c through attach_options. */
#pragma once

#include "lib/base/buf.h"

#define CODE_RESULTS_LINE_MAX (64U << 20)
#define CODE_RESULTS_FILES_MAX 1000
#define CODE_RESULTS_BYTES_MAX ((size_t)1 << 30) /* of all files */

struct code_results {
	const char *dir; /* borrowed. NULL: nothing is saved */
	bool quiet;	 /* no text on stdout */
	struct buf line;
	bool too_long; /* the rest of the line is skipped */
	unsigned n;    /* results so far */
	unsigned files;
	size_t bytes; /* in files */
	bool said_full, said_bad;
};

void code_results_init(struct code_results *c, const char *dir, bool quiet);
void code_results_release(struct code_results *c);

/* The next bytes of the stream. arg is a struct code_results. */
int code_results_take(void *arg, const uint8_t *bytes, size_t n, struct err *e) MUST_USE;
