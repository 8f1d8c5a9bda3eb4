/* buf.h - a byte buffer that grows up to a cap given at the start. For all data whose size a peer
 * chooses.
 *
 * Two ways to add. buf_add() is for input of a peer: all bytes are added, or none and the error is
 * ERR_LIMIT. buf_put() is for text that the program composes: a piece that does not fit is dropped
 * with all that follow, and buf_check() reports it once at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct buf {
	uint8_t *data; /* owned. NULL while nothing was added */
	size_t len;    /* bytes in use */
	size_t size;   /* bytes allocated, at most cap */
	size_t cap;
	bool full;   /* something was put that did not fit */
	bool secret; /* set by the owner: memory is wiped before it is freed or reallocated */
};

#define BUF_INIT(max)        \
	{                    \
		.cap = (max) \
	}

void buf_init(struct buf *b, size_t cap);
void buf_clear(struct buf *b);	 /* empty again. The memory is kept */
void buf_release(struct buf *b); /* empty again. The memory is given back, the cap stays */

/* Add n bytes, or nothing. Fail with ERR_LIMIT beyond the cap, ERR_SYSTEM without memory. */
int buf_add(struct buf *b, const void *data, size_t n, struct err *e) MUST_USE;

/* Make room for n more bytes and return where they go, for read(2). buf_commit() then says how
 * many came. NULL as buf_add() fails. Pointers into the buffer are good until the next growth. */
uint8_t *buf_reserve(struct buf *b, size_t n, struct err *e) MUST_USE;
void buf_commit(struct buf *b, size_t n);

/* Keep the first n bytes, or all if there are fewer. */
void buf_truncate(struct buf *b, size_t n);
/* Remove the first n bytes. The rest moves down. */
void buf_consume(struct buf *b, size_t n);

void buf_put(struct buf *b, const void *data, size_t n);
void buf_put_text(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
int buf_check(const struct buf *b, struct err *e) MUST_USE;

/* The bytes as a C string: a NUL is kept behind them (it does not count), "" if there are none.
 * Borrowed from the buffer. */
const char *buf_text(struct buf *b);
