/* fifo.h - bytes on their way: added at the end, taken from the front. Allocated when needed and
 * given back when empty, so that an idle connection holds none. What bounds it is the caller's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "own.h"

struct fifo {
	uint8_t *data; /* NULL while it was never filled, or after fifo_release() */
	size_t at;     /* where the first byte is */
	size_t len;
	size_t size;
	size_t top; /* as far as there ever was something */
};

/* The first byte (NULL if there was never one); valid until the next fifo_reserve() or fifo_add().
 */
static inline uint8_t *fifo_bytes(const struct fifo *f)
{
	return f->data ? f->data + f->at : NULL;
}

/* Room for n bytes at the end, or NULL without memory. fifo_commit() says how many came. */
uint8_t *fifo_reserve(struct fifo *f, size_t n) MUST_USE;
void fifo_commit(struct fifo *f, size_t n);
/* All of it, or -1 without memory. */
int fifo_add(struct fifo *f, const void *data, size_t n) MUST_USE;
/* Takes n bytes from the front; they stay readable until the next fifo_reserve(). */
void fifo_consume(struct fifo *f, size_t n);
/* Empty, and without memory. */
void fifo_release(struct fifo *f);
