/* multipart.h - multipart/form-data (RFC 7578), taken apart as it arrives. Pure, fuzzed.
 *
 * Strict: CRLF only, no folded headers, no padding behind a boundary, bounded heads. The parser
 * copies nothing of a part's content and looks for the boundary with one search per piece:
 *
 *	switch (multipart_read(&m, bytes, len, &used, &data)) {
 *	case MULTIPART_DATA: take up to data.n bytes at data.p, then used += multipart_took(&m, n)
 */
#pragma once

#include "lib/base/err.h"
#include "lib/http/http1.h"

/* ---- the head of a part
 *
 * A form part's headers: its field, and its file. Pure. */

#define PART_HEAD_NAME_MAX 64
#define PART_HEAD_FILENAME_MAX 4096

struct part_head {
	char name[PART_HEAD_NAME_MAX];
	char filename[PART_HEAD_FILENAME_MAX];
	bool has_filename;
};

/* Lines, each with its CRLF. NULL, or why it is malformed: a constant. */
const char *part_head_read(struct part_head *ret, const char *bytes, size_t len) MUST_USE;

/* Take a parameter (semicolon, name=value) from the front of a header's value: 1. 0: at its end.
 * -1: anything else. A quoted value comes with its escapes. */
int part_head_param(struct http1_span *s, struct http1_span *ret_name, struct http1_span *ret_value,
		    bool *ret_quoted) MUST_USE;

#define MULTIPART_BOUNDARY_MAX 71 /* with NUL, see RFC 2046 */
#define MULTIPART_HEAD_MAX 16384  /* bytes of a part's headers */

enum multipart_result {
	MULTIPART_MORE, /* all input was used: call again with more */
	MULTIPART_PART, /* one begins: part */
	MULTIPART_DATA, /* of that part, unused until multipart_took() */
	MULTIPART_PART_END,
	MULTIPART_END, /* of the last part. The rest is ignored. Stays in this state */
	MULTIPART_BAD  /* malformed: why. Stays */
};

struct multipart {
	char delimiter[4 + MULTIPART_BOUNDARY_MAX]; /* CR LF -- boundary */
	size_t delimiter_n;
	unsigned state;
	size_t matched; /* bytes of the delimiter at a piece's end */
	size_t held; /* of those, no delimiter after all: still to be given out, from held_at on */
	size_t held_at;
	size_t outside; /* bytes in front of the first part */
	char head[MULTIPART_HEAD_MAX];
	size_t head_n;
	const char *why;       /* a constant */
	struct part_head part; /* the part that began last */
};

/* From the value of Content-Type. ERR_INVALID if it is not multipart/form-data with a boundary. */
int multipart_init(struct multipart *m, struct http1_span content_type, struct err *e) MUST_USE;
/* *ret_used: how many of the bytes need not be passed again. */
enum multipart_result multipart_read(struct multipart *m, const char *bytes, size_t len,
				     size_t *ret_used, struct http1_span *ret_data) MUST_USE;
/* n bytes of the data last given were taken. n <= its length. Return how many of them were among
 * the bytes passed (the others came earlier). */
size_t multipart_took(struct multipart *m, size_t n);
/* Is the form complete, so that the body may end here? */
bool multipart_ended(const struct multipart *m);
