/* log_reader.h - reads the output of one execution from any cursor on, live or after its end, in
 * pieces that do not split characters where possible. */
#pragma once

#include "daemon/execution/execution.h"
#include "daemon/output/output.h"
#include "front/web/request.h"

#define LOG_READER_PIECE 8192 /* bytes at most */

struct log_reader {
	struct core *core;
	char session_id[REQUEST_ID_MAX], id[REQUEST_ID_MAX];
	struct execution *x; /* NULL: not live (any more): log_reader_live() */
	struct execution_follower follower;
	int fd;			   /* owned. -1: none so far */
	uint64_t cursor;	   /* of the first byte not given out */
	bool lost;		   /* not live, and its log is not kept any more */
	bool unlogged;		   /* not live, and a call of a version that kept none */
	bool started, cut, exited; /* the start, a cut, the exit were reported */
};

enum log_reader_what {
	LOG_READER_NOTHING, /* for now. The follower is called for more */
	LOG_READER_START,
	LOG_READER_BYTES, /* bytes, n, stream, offset. after is the cursor after them */
	LOG_READER_CUT,	  /* bytes, n: the reason */
	LOG_READER_EXIT,
	LOG_READER_END, /* all output and the exit were reported */
	LOG_READER_FAILED
};

struct log_reader_item {
	enum log_reader_what what;
	enum output_stream stream;
	uint64_t offset;
	uint64_t after;
	size_t n;
	bool is_text; /* whole UTF-8 characters */
	uint8_t bytes[LOG_READER_PIECE + 4];
};

/* Follow an execution of that request's session. on_more is called for new output (arg: the
 * request). live is NULL if the session has ended. text: keep characters whole. ERR_NOT_FOUND: no
 * such execution. */
int log_reader_open(struct log_reader *rd, struct request *r, struct session *live, uint64_t after,
		    void (*on_more)(struct execution_follower *f), struct err *e) MUST_USE;
/* Safe if it was never opened (all zero). */
void log_reader_close(struct log_reader *rd);

/* The live execution, or NULL. Do not use the pointer after the end of its session. The core has
 * dropped its followers then. */
struct execution *log_reader_live(struct log_reader *rd);

/* The next item. It is returned again until log_reader_advance() is called with it. */
void log_reader_next(struct log_reader *rd, bool text, struct log_reader_item *ret, struct err *e);
void log_reader_advance(struct log_reader *rd, const struct log_reader_item *item);

/* The cursor in the parameter "after", or in Last-Event-ID of a client that reconnects. 0: neither.
 */
int log_reader_after(struct request *r, uint64_t *ret, struct err *e) MUST_USE;
