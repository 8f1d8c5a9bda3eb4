/* multipart.h - multipart/form-data (RFC 7578), taken apart as it arrives. Pure, fuzzed.
 *
 * Strict: CRLF only, no folded headers, no padding behind a boundary, bounded heads. The parser
 * copies nothing of a part's content and looks for the boundary with one search per piece:
 *
 *	switch (multipart_read(&m, bytes, len, &used, &data)) {
 *	case MULTIPART_DATA: take up to data.n bytes at data.p, then used += multipart_took(&m, n)
 */
#pragma once

#include "err.h"
#include "http1.h"
#include "part_head.h"

#define MULTIPART_BOUNDARY_MAX 71 /* with NUL; RFC 2046 */
#define MULTIPART_HEAD_MAX 16384  /* bytes of a part's headers */

enum multipart_result {
	MULTIPART_MORE, /* everything was used; call again with what arrives */
	MULTIPART_PART, /* one begins: part */
	MULTIPART_DATA, /* of that part; not yet used: multipart_took() */
	MULTIPART_PART_END,
	MULTIPART_END, /* of the last part; what follows is ignored. Stays in this state */
	MULTIPART_BAD  /* malformed: why. Stays */
};

struct multipart {
	char delimiter[4 + MULTIPART_BOUNDARY_MAX]; /* CR LF -- boundary */
	size_t delimiter_n;
	unsigned state;
	size_t matched; /* bytes of the delimiter that were used at the end of a piece */
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
/* n bytes of the data last given were taken; n <= its length. Returns how many of them were among
 * the bytes passed (the others were before). */
size_t multipart_took(struct multipart *m, size_t n);
/* Is the form complete, so that the body may end here? */
bool multipart_ended(const struct multipart *m);
