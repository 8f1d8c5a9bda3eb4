/* fifo.c - a queue of bytes in one piece of memory, wiped before it is freed: it may have held a
 * secret. */
#include "lib/net/fifo.h"

#include <assert.h>
#include <string.h>

#define SIZE_MIN 1024

uint8_t *fifo_reserve(struct fifo *f, size_t n)
{
	size_t size = f->size ? f->size : SIZE_MIN;
	uint8_t *data;

	if (f->data && f->size - f->at - f->len >= n)
		return f->data + f->at + f->len;
	if (f->data && f->size - f->len >= n) {
		memmove(f->data, f->data + f->at, f->len);
		f->at = 0;
		return f->data + f->len;
	}
	if (n > SIZE_MAX / 4 - f->len)
		return NULL;
	while (size < f->len + n)
		size *= 2;
	data = malloc(size);
	if (!data)
		return NULL;
	if (f->data) {
		memcpy(data, f->data + f->at, f->len);
		explicit_bzero(f->data, f->top);
	}
	free(f->data);
	f->data = data;
	f->size = size;
	f->at = 0;
	f->top = f->len;
	return f->data + f->len;
}

void fifo_commit(struct fifo *f, size_t n)
{
	assert(n <= f->size - f->at - f->len);
	f->len += n;
	f->top = f->top > f->at + f->len ? f->top : f->at + f->len;
}

int fifo_add(struct fifo *f, const void *data, size_t n)
{
	uint8_t *to;

	if (n == 0)
		return 0;
	to = fifo_reserve(f, n);
	if (!to)
		return -1;
	memcpy(to, data, n);
	fifo_commit(f, n);
	return 0;
}

void fifo_consume(struct fifo *f, size_t n)
{
	assert(n <= f->len);
	f->len -= n;
	f->at = f->len > 0 ? f->at + n : 0;
}

void fifo_release(struct fifo *f)
{
	if (f->data)
		explicit_bzero(f->data, f->top);
	free(f->data);
	*f = (struct fifo){ 0 };
}
