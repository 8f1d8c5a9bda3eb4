/* chunk.h - the chunked transfer coding, decoded as it arrives, and encoded.
 *
 * Strict: CRLF only, at most 15 hex digits. Extensions are refused in requests. In answers they are
 * legal, are checked, bounded and dropped. Trailers are checked as headers are, bounded and
 * dropped. The decoder copies nothing:
 *
 *	switch (chunk_read(&c, bytes, len, &used, &data)) {
 *	case CHUNK_DATA: take up to data.n bytes at data.p, then chunk_took(&c, n), used += n */
#pragma once

#include "lib/http/http1.h"

#define CHUNK_TRAILER_MAX 4096
#define CHUNK_EXTENSION_MAX 1024 /* bytes after the size of one chunk */

enum chunk_result {
	CHUNK_MORE,    /* all bytes were used. Call again with more */
	CHUNK_DATA,    /* ret_data is at bytes + *ret_used, and not used yet: chunk_took() */
	CHUNK_END,     /* the body is complete. The next byte begins the next message */
	CHUNK_BAD,     /* malformed. The connection cannot be used any more */
	CHUNK_TOO_LONG /* more than max bytes of body are announced */
};

struct chunk {
	uint64_t max, total; /* total: bytes of body taken so far */
	uint64_t left;	     /* bytes left of this chunk */
	size_t trailer;	     /* bytes of trailers so far */
	char name[18];	     /* of a trailer. One byte more than the longest compared */
	uint8_t name_n;
	uint8_t digits;
	uint8_t state;
	bool extended;	    /* extensions are allowed, and skipped */
	uint16_t extension; /* bytes of one so far */
};

/* max: bytes of body allowed. */
void chunk_init(struct chunk *c, uint64_t max);
/* For an answer: its chunks may have extensions. */
void chunk_init_answer(struct chunk *c, uint64_t max);
/* *ret_used is how many of the bytes need not be passed again. CHUNK_BAD, CHUNK_TOO_LONG and
 * CHUNK_END stay. */
enum chunk_result chunk_read(struct chunk *c, const void *bytes, size_t len, size_t *ret_used,
			     struct http1_span *ret_data) MUST_USE;
/* n bytes of the data last given were taken. n <= its length. */
void chunk_took(struct chunk *c, size_t n);

/* A chunk is a head, its bytes, CHUNK_TAIL. A body ends with CHUNK_LAST. */
#define CHUNK_HEAD_MAX 18
#define CHUNK_TAIL "\r\n"
#define CHUNK_LAST "0\r\n\r\n"
/* Write the head of a chunk of n > 0 bytes, not NUL-terminated. Return its length. */
size_t chunk_head(char ret[CHUNK_HEAD_MAX], size_t n);
