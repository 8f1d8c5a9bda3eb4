/* inline_output.h - the output of an execution as members of a JSON object: "stdout", "stderr" (or
 * "stdout_base64", "stderr_base64"), "inline_truncated", and those of result_view.h for code. In
 * pieces, since both streams together may become 12 MiB of JSON. api_executions.c calls it, one
 * piece in a turn. */
#pragma once

#include "front/web/result_view.h"
#include "lib/base/buf.h"
#include "lib/json/json.h"

#define INLINE_OUTPUT_MAX (1U << 20) /* bytes of each stream */
/* Its longest JSON: each byte may become "\u0000". */
#define INLINE_OUTPUT_JSON_MAX (2 * (6 * INLINE_OUTPUT_MAX + 64) + RESULT_VIEW_JSON_MAX)
#define INLINE_OUTPUT_PIECE 65535  /* bytes read, and bytes written, in a piece: whole base64 */
#define INLINE_OUTPUT_RECORDS 1024 /* of the log, read in a piece */

struct inline_output {
	int fd; /* of the log, owned. -1: no output */
	uint64_t cursor;
	bool base64;
	bool read; /* the log was read as far as it is shown */
	bool cut;  /* a stream is longer than INLINE_OUTPUT_MAX */
	struct buf streams[2];
	unsigned stream;   /* index of the current stream */
	size_t written;	   /* bytes of that stream */
	bool begun;	   /* its member was opened */
	bool with_results; /* set by the caller: with the members of result_view.h */
	bool only_results;
	bool ended; /* of stdout and stderr all is written */
	struct result_view results;
};

/* Take fd over. */
void inline_output_init(struct inline_output *o, int fd, bool base64);
/* Begin without standard output and error. */
void inline_output_init_results(struct inline_output *o, int fd);
/* Safe if it is all zero. */
void inline_output_release(struct inline_output *o);

/* Write a piece. 1: call again. 0: all is written. -1: the log cannot be read. Output of one piece
 * or less takes one call. */
int inline_output_piece(struct inline_output *o, struct json *j, struct err *e) MUST_USE;
