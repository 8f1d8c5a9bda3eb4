/* process_piece.h - reads the next part of an execution's log for one message of its stream:
 * standard output or error. E2B's clients have no stream of results: those records are skipped. A
 * call reads a bounded number of records. Called by process_feed.c. */
#pragma once

#include "daemon/output/output.h"

#define PROCESS_PIECE_RECORDS 256 /* in a call, of whatever length */

enum process_piece {
	PROCESS_PIECE_NONE, /* there is no more now */
	PROCESS_PIECE_DATA,
	PROCESS_PIECE_PASSED, /* only records outside the stream: call again */
	PROCESS_PIECE_CUT,
	PROCESS_PIECE_FAILED
};

/* As much of one stream as is there, at most cap bytes. Adds to *spent what reading cost, in
 * bytes. */
enum process_piece process_piece_read(int fd, uint64_t *cursor, uint8_t *bytes, size_t cap,
				      enum output_stream *ret_stream, size_t *ret_n, size_t *spent);
