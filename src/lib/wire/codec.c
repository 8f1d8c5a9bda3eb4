#include "lib/wire/codec.h"

#include <string.h>

/* False, and c is bad, where n bytes do not fit. */
static bool codec_has(struct codec *c, size_t n)
{
	codec_expect(c, c->n >= n);
	return c->n >= n;
}

static void codec_pass(struct codec *c, size_t n)
{
	if (c->to != NULL)
		c->to += n;
	else
		c->from += n;
	c->n -= n;
}

uint64_t codec_number(struct codec *c, size_t width, uint64_t v)
{
	uint64_t got = 0;

	if (!codec_has(c, width))
		return c->to != NULL ? v : 0;
	for (size_t i = 0; i < width; i++) {
		if (c->to != NULL)
			c->to[i] = (uint8_t)(v >> (8 * i));
		else
			got |= (uint64_t)c->from[i] << (8 * i);
	}
	codec_pass(c, width);
	return c->to != NULL ? v : got;
}

void codec_flag(struct codec *c, bool *v)
{
	uint64_t flag = codec_number(c, 1, *v ? 1 : 0);

	codec_expect(c, flag <= 1);
	*v = flag == 1;
}

static const char *codec_get_string(struct codec *c, size_t cap)
{
	size_t len = codec_number(c, 2, 0);
	const char *s = (const char *)c->from;

	if (c->bad || len >= cap || c->n < len + 1 || memchr(s, '\0', len + 1) != s + len) {
		c->bad = true;
		return "";
	}
	codec_pass(c, len + 1);
	return s;
}

static void codec_put_string(struct codec *c, size_t cap, const char *s)
{
	size_t len = strlen(s);

	if (len >= cap || !codec_has(c, 2 + len + 1)) {
		c->bad = true;
		return;
	}
	(void)codec_number(c, 2, len);
	memcpy(c->to, s, len + 1);
	codec_pass(c, len + 1);
}

void codec_string(struct codec *c, size_t cap, const char **s)
{
	if (c->to != NULL)
		codec_put_string(c, cap, *s == NULL ? "" : *s);
	else
		*s = codec_get_string(c, cap);
}

void codec_text(struct codec *c, size_t cap, char *s)
{
	const char *text = s;

	codec_string(c, cap, &text);
	if (c->to == NULL)
		memcpy(s, text, strlen(text) + 1);
}

void codec_bytes(struct codec *c, void *bytes, size_t n)
{
	bool fits = codec_has(c, n);

	if (c->to == NULL && !fits)
		memset(bytes, 0, n);
	if (!fits || n == 0)
		return;
	if (c->to != NULL)
		memcpy(c->to, bytes, n);
	else
		memcpy(bytes, c->from, n);
	codec_pass(c, n);
}

void codec_span(struct codec *c, const uint8_t **data, size_t len)
{
	if (c->to == NULL)
		*data = c->from;
	if (!codec_has(c, len) || len == 0)
		return;
	if (c->to != NULL)
		memcpy(c->to, *data, len);
	codec_pass(c, len);
}

void codec_rest(struct codec *c, const uint8_t **data, size_t *len)
{
	if (c->to == NULL)
		*len = c->n;
	codec_span(c, data, *len);
}

void codec_error(struct codec *c, enum err_code *code, size_t cap, const char **text)
{
	uint64_t number = codec_number(c, 1, *code);

	if (c->to == NULL) {
		codec_expect(c, number > ERR_NONE && number < ERR_CODES);
		*code = c->bad ? ERR_SYSTEM : (enum err_code)number;
	}
	codec_string(c, cap, text);
}
