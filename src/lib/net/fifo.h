/* fifo.h - a queue of bytes: added at the end, consumed at the front. Used for the buffers of
 * connections in src/lib/net, src/lib/net and cordon-egress. Allocated when needed and freed when
 * empty, so that an idle connection holds none. The caller bounds it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/own.h"

struct fifo {
	uint8_t *data; /* NULL before the first bytes, and after fifo_release() */
	size_t at;     /* offset of the first byte */
	size_t len;
	size_t size;
	size_t top; /* the highest offset ever used, to be wiped */
};

/* The first byte (NULL if there never was one). Valid until the next fifo_reserve() or fifo_add().
 */
static inline uint8_t *fifo_bytes(const struct fifo *f)
{
	return f->data ? f->data + f->at : NULL;
}

/* Room for n bytes at the end. NULL: out of memory. fifo_commit() says how many were written. */
uint8_t *fifo_reserve(struct fifo *f, size_t n) MUST_USE;
void fifo_commit(struct fifo *f, size_t n);
/* Add all of it. -1: out of memory. */
int fifo_add(struct fifo *f, const void *data, size_t n) MUST_USE;
/* Remove n bytes from the front. They stay readable until the next fifo_reserve(). */
void fifo_consume(struct fifo *f, size_t n);
/* Empty it, and free its memory. */
void fifo_release(struct fifo *f);
