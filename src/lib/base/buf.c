#include "lib/base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIRST 256

void buf_init(struct buf *b, size_t cap)
{
	*b = (struct buf){ .cap = cap };
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->full = false;
}

/* Not with realloc(3), which would leave a copy behind. */
static uint8_t *buf_move_secret(struct buf *b, size_t size)
{
	uint8_t *data = malloc(size);

	if (data == NULL || b->data == NULL)
		return data;
	memcpy(data, b->data, b->len);
	explicit_bzero(b->data, b->size);
	free(b->data);
	return data;
}

void buf_release(struct buf *b)
{
	if (b->secret && b->data != NULL)
		explicit_bzero(b->data, b->size);
	free(b->data);
	buf_init(b, b->cap);
}

/* One byte more than size is allocated, for the NUL of buf_text(). */
static int buf_grow(struct buf *b, size_t need, struct err *e)
{
	size_t size = b->size == 0 ? FIRST : b->size;
	uint8_t *data;

	while (size < need)
		size = size > b->cap / 2 ? b->cap : size * 2;
	if (size > b->cap)
		size = b->cap;
	data = b->secret ? buf_move_secret(b, size + 1) : realloc(b->data, size + 1);
	if (data == NULL)
		return err_sys(e, "buffer of %zu bytes", size);
	b->data = data;
	b->size = size;
	return 0;
}

uint8_t *buf_reserve(struct buf *b, size_t n, struct err *e)
{
	if (n > b->cap - b->len) {
		(void)err_set(e, ERR_LIMIT, "more than %zu bytes", b->cap);
		return NULL;
	}
	if ((b->data == NULL || n > b->size - b->len) && buf_grow(b, b->len + n, e) < 0)
		return NULL;
	return b->data + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	assert(n <= b->size - b->len);
	b->len += n;
}

int buf_add(struct buf *b, const void *data, size_t n, struct err *e)
{
	uint8_t *at;

	if (n == 0)
		return 0;
	at = buf_reserve(b, n, e);
	if (at == NULL)
		return -1;
	memcpy(at, data, n);
	b->len += n;
	return 0;
}

void buf_truncate(struct buf *b, size_t n)
{
	if (n < b->len)
		b->len = n;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (n == 0)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len);
}

void buf_put(struct buf *b, const void *data, size_t n)
{
	struct err ignored;

	if (!b->full && buf_add(b, data, n, &ignored) < 0)
		b->full = true;
}

void buf_put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	char small[256];
	struct err ignored;
	va_list ap;
	uint8_t *at;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		b->full = true;
	else if ((size_t)n < sizeof(small))
		buf_put(b, small, (size_t)n);
	else if (!b->full) {
		at = buf_reserve(b, (size_t)n, &ignored);
		if (at == NULL) {
			b->full = true;
			return;
		}
		va_start(ap, fmt);
		(void)vsnprintf((char *)at, (size_t)n + 1, fmt, ap);
		va_end(ap);
		buf_commit(b, (size_t)n);
	}
}

int buf_check(const struct buf *b, struct err *e)
{
	return b->full ? err_set(e, ERR_LIMIT, "more than %zu bytes", b->cap) : 0;
}

const char *buf_text(struct buf *b)
{
	if (b->data == NULL)
		return "";
	b->data[b->len] = '\0';
	return (const char *)b->data;
}
