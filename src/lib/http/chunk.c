/* chunk.c - the decoder is a state machine that takes the bytes of heads and trailers one by one,
 * and the data in whole pieces. A forbidden byte leads to BAD, the final state. */
#include "lib/http/chunk.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 15 /* so that a size is below 2^60, and sums cannot overflow */

enum chunk_state {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	LINE, /* the first byte of a line of the trailers */
	NAME,
	VALUE,
	TRAILER_LF,
	LAST_LF,
	DONE,
	BAD,
	LONG
};

void chunk_init(struct chunk *c, uint64_t max)
{
	*c = (struct chunk){ .max = max, .state = SIZE };
}

void chunk_init_answer(struct chunk *c, uint64_t max)
{
	chunk_init(c, max);
	c->extended = true;
}

/* The text after a size, up to the end of its line. */
static enum chunk_state on_extension(struct chunk *c, uint8_t b)
{
	if (b == '\r')
		return SIZE_LF;
	if ((b < 0x20 && b != '\t') || b == 0x7f || ++c->extension > CHUNK_EXTENSION_MAX)
		return BAD;
	return EXTENSION;
}

static enum chunk_state on_size(struct chunk *c, uint8_t b)
{
	int value = http1_hex((char)b);

	if (b == '\r' && c->digits > 0)
		return SIZE_LF;
	if (c->extended && c->digits > 0 && (b == ';' || b == ' ' || b == '\t')) {
		c->extension = 0;
		return EXTENSION;
	}
	if (value < 0 || c->digits == DIGITS_MAX)
		return BAD;
	c->digits++;
	c->left = c->left * 16 + (unsigned)value;
	return SIZE;
}

static enum chunk_state on_size_end(struct chunk *c)
{
	c->digits = 0;
	if (c->left == 0)
		return LINE;
	return c->left > c->max - c->total ? LONG : DATA;
}

/* Trailers are dropped, but only if they are fields: a reader that takes them for the next request
 * must not find one. For the same reason fields that define the message are refused: its length,
 * its host, its connection. */
static enum chunk_state on_colon(const struct chunk *c)
{
	static const char *const refused[] = { "content-length", "transfer-encoding", "host",
					       "connection" };
	struct http1_span name = { c->name, c->name_n };

	for (size_t i = 0; i < COUNT(refused); i++) {
		if (http1_span_is_nocase(name, refused[i]))
			return BAD;
	}
	return VALUE;
}

static enum chunk_state on_name(struct chunk *c, char b)
{
	if (b == ':' && c->name_n > 0)
		return on_colon(c);
	if (!http1_is_token(&b, 1))
		return BAD;
	if (c->name_n < sizeof(c->name))
		c->name[c->name_n++] = b;
	return NAME;
}

static enum chunk_state on_trailer(struct chunk *c, uint8_t b)
{
	if (++c->trailer > CHUNK_TRAILER_MAX)
		return BAD;
	if (c->state == VALUE) {
		if (b == '\r')
			return TRAILER_LF;
		return (b < 0x20 && b != '\t') || b == 0x7f ? BAD : VALUE;
	}
	if (c->state == LINE) {
		c->name_n = 0;
		if (b == '\r')
			return LAST_LF;
	}
	return on_name(c, (char)b);
}

/* States with one successor. */
static const struct {
	uint8_t byte, next;
} edges[] = {
	[SIZE_LF] = { '\n', DATA },    [DATA_CR] = { '\r', DATA_LF }, [DATA_LF] = { '\n', SIZE },
	[TRAILER_LF] = { '\n', LINE }, [LAST_LF] = { '\n', DONE },
};

static enum chunk_state chunk_step(struct chunk *c, uint8_t b)
{
	if (c->state == SIZE)
		return on_size(c, b);
	if (c->state == EXTENSION)
		return on_extension(c, b);
	if (c->state == LINE || c->state == NAME || c->state == VALUE)
		return on_trailer(c, b);
	if (b != edges[c->state].byte)
		return BAD;
	return c->state == SIZE_LF ? on_size_end(c) : (enum chunk_state)edges[c->state].next;
}

enum chunk_result chunk_read(struct chunk *c, const void *bytes, size_t len, size_t *ret_used,
			     struct http1_span *ret_data)
{
	const uint8_t *p = bytes;
	size_t i = 0;

	*ret_data = (struct http1_span){ NULL, 0 };
	while (i < len && c->state != DATA && c->state < DONE)
		c->state = (uint8_t)chunk_step(c, p[i++]);
	*ret_used = i;
	if (c->state == DONE)
		return CHUNK_END;
	if (c->state == BAD)
		return CHUNK_BAD;
	if (c->state == LONG)
		return CHUNK_TOO_LONG;
	if (c->state != DATA || i == len)
		return CHUNK_MORE;
	ret_data->p = (const char *)p + i;
	ret_data->n = len - i < c->left ? len - i : (size_t)c->left;
	return CHUNK_DATA;
}

void chunk_took(struct chunk *c, size_t n)
{
	assert(c->state == DATA && n <= c->left);
	c->left -= n;
	c->total += n;
	if (c->left == 0)
		c->state = DATA_CR;
}

size_t chunk_head(char ret[CHUNK_HEAD_MAX], size_t n)
{
	char text[CHUNK_HEAD_MAX + 1];
	int len = snprintf(text, sizeof(text), "%zx\r\n", n);

	assert(n > 0 && len > 0 && (size_t)len < sizeof(text));
	memcpy(ret, text, (size_t)len);
	return (size_t)len;
}
