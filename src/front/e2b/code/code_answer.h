/* code_answer.h - the answer to POST /execute: lines of JSON ({"type":"stdout","text":"..."}),
 * understood as far as records and masking need it. Pure. Called by code_call.c.
 *
 * The lines come from a cell, and each may be of any length: nothing here keeps a line. With a
 * mask,
 *
 *  - texts of lines "stdout" and "stderr" are decoded and become two streams (mask_stream), as the
 *    two pipes of a program are. The output of a stream is written as new lines. So a value is
 *    found wherever lines divide it, and is held back for one or two ticks.
 *  - every other line is masked byte for byte, within itself. Only texts and numbers in it are
 *    covered (a number with the digit 1), so it stays JSON.
 *
 * Lines of other types overtake held text. Only before an error and the end all of it is given out.
 * A mask that comes or goes during the answer is used from the next line on. */
#pragma once

#include "daemon/output/output.h"
#include "lib/base/buf.h"
#include "lib/json/json_scan.h"
#include "lib/mask/mask.h"

#define CODE_ANSWER_HEAD 40
#define CODE_ANSWER_OUT_MAX (8U << 20) /* more than a piece and all held text can become */
#define CODE_ANSWER_PIECE ((size_t)16 * 1024)

enum code_answer_line {
	CODE_ANSWER_STDOUT,
	CODE_ANSWER_STDERR,
	CODE_ANSWER_RESULT,
	CODE_ANSWER_ERROR,
	CODE_ANSWER_COUNT,
	CODE_ANSWER_KEEPALIVE,
	CODE_ANSWER_END,
	CODE_ANSWER_OTHER,
};

struct code_answer_lane {
	struct mask_stream mask;
	struct buf text; /* decoded, and not yet masked */
	uint8_t part[4]; /* the first bytes of a character whose rest is held */
	size_t npart;
};

/* Take the kept parts of the answer as they are given out: texts of output, and lines of results,
 * errors and counts. NULL: nothing is kept. */
typedef void code_answer_keep_fn(void *arg, enum output_stream stream, const uint8_t *bytes,
				 size_t n);

struct code_answer {
	code_answer_keep_fn *keep; /* set after code_answer_init() */
	void *keep_arg;
	bool is_text;	/* no lines: masked as one text */
	bool in_line;	/* its type is known, else `head` has its first bytes */
	bool masked;	/* this line is */
	bool was_given; /* a part of this line is given out: no other line may begin */
	enum code_answer_line line;
	uint8_t head[CODE_ANSWER_HEAD];
	size_t nhead;
	size_t noted;	       /* of head: the client has them already */
	struct json_scan scan; /* of a line with text */
	struct code_answer_lane lanes[2];
	struct mask_stream mask; /* of the other lines */
	struct buf raw, kinds;	 /* its bytes, and the kind of each */
	struct buf scratch;	 /* of code_line_scratch() */
	size_t passed;		 /* of raw and kinds: given out already */
	int state;		 /* where in a line the next byte is */
	bool in_number;
	uint8_t escape[8]; /* an escape sequence whose rest is held */
	size_t nescape;
	bool escape_covered;
	uint64_t lines; /* begun so far */
	/* For the record. */
	bool failed;			/* there was an error */
	bool over;			/* the end came */
	uint64_t bytes[OUTPUT_STREAMS]; /* decoded text, and lines of results */
};

/* is_text: the answer is an error message of the interpreter, and no stream of lines. */
void code_answer_init(struct code_answer *k, bool is_text);
void code_answer_release(struct code_answer *k); /* wipes it */

/* Would feed() give out its input unchanged? Then code_answer_note() is enough. */
bool code_answer_is_plain(const struct code_answer *k, const struct mask *m);
void code_answer_note(struct code_answer *k, const uint8_t *data, size_t n);

/* m: the mask of this moment, NULL if there is none. Append to out all that may leave. n is at
 * most CODE_ANSWER_PIECE. tick: every MASK_TICK_MS while code_answer_holds(). */
void code_answer_feed(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		      struct buf *out);
void code_answer_tick(struct code_answer *k, const struct mask *m, struct buf *out);
void code_answer_end(struct code_answer *k, const struct mask *m, struct buf *out);
bool code_answer_holds(const struct code_answer *k);
/* How many values were covered since the last call. */
uint64_t code_answer_places(struct code_answer *k);
