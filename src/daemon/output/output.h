/* output.h - reads the log of one execution's output: an append-only file of records in the order
 * in which the bytes were written, limited in size. Any number of readers read it, each at its own
 * pace. output_log.h is the writing side.
 *
 * A record is { u32 length, u32 stream, u64 time_ms, u64 offset in its stream }, then the bytes. A
 * cursor is opaque to readers. 0 is the beginning. A reader's cursor stays valid. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum output_stream {
	OUTPUT_STDOUT = 1,
	OUTPUT_STDERR = 2,
	OUTPUT_CUT = 3, /* later output was not kept. The record's bytes are one of the reasons */
	OUTPUT_RESULT = 4, /* lines of JSON that the program wrote to its descriptor 3 */
	/* Notes: no output, but recorded between it. Only output_read_all() gives them. */
	OUTPUT_SIZE = 5,  /* of its terminal, from now on: "80x24", columns first */
	OUTPUT_INPUT = 6, /* that a client sent, if the execution records it */
};

static inline bool output_is_note(enum output_stream s)
{
	return s == OUTPUT_SIZE || s == OUTPUT_INPUT;
}

#define OUTPUT_STREAMS 3

/* The index of a stream other than OUTPUT_CUT: 0, 1 or 2. And back. */
static inline unsigned output_index(enum output_stream s)
{
	return s == OUTPUT_RESULT ? 2 : (unsigned)s - OUTPUT_STDOUT;
}

static inline enum output_stream output_stream_at(unsigned i)
{
	return i == 2 ? OUTPUT_RESULT : i == 1 ? OUTPUT_STDERR : OUTPUT_STDOUT;
}

#define OUTPUT_BY_LIMIT "limit"	    /* of the execution */
#define OUTPUT_BY_DISK "disk"	    /* it is full */
#define OUTPUT_BY_SESSION "session" /* the limit of all its session's logs together */
#define OUTPUT_BY_END "end"	    /* the session or the call ended before it was read */
#define OUTPUT_NOT_KEPT "not_kept"  /* of a call under an earlier version, which kept none */

struct output_chunk {
	enum output_stream stream;
	uint64_t time_ms;
	uint64_t offset; /* of the first byte in its stream */
	size_t len;
};

/* The cost of reading a record beside its bytes, in bytes: for readers that take turns. A log may
 * have a record for each byte. */
#define OUTPUT_READ_COST 512

/* Read the next chunk of output at *cursor into buf, at most cap bytes of it, and move *cursor
 * after it. Notes are passed over: a log has at most OUTPUT_NOTES_MAX of them in a row. Return 1, 0
 * if there is nothing more now, -1 if the log cannot be read. A chunk may come in several pieces.
 * fd may be -1: an execution without output. */
int output_read(int fd, uint64_t *cursor, struct output_chunk *ret, uint8_t *buf, size_t cap,
		struct err *e) MUST_USE;

#define OUTPUT_NOTES_MAX 1024
/* output_read(), but notes are given, too. */
int output_read_all(int fd, uint64_t *cursor, struct output_chunk *ret, uint8_t *buf, size_t cap,
		    struct err *e) MUST_USE;

/* The chunk of output at *cursor, which moves behind notes, without its bytes: len is the rest of
 * it. Return as output_read(). output_skip() moves the cursor behind a chunk that output_look()
 * gave. */
int output_look(int fd, uint64_t *cursor, struct output_chunk *ret, struct err *e) MUST_USE;
void output_skip(uint64_t *cursor, const struct output_chunk *chunk);

/* The cursor after all that a log held when it had that size: log_bytes of its row. */
uint64_t output_cursor_at(uint64_t log_bytes);
