#include "codec.h"

#include <string.h>

uint64_t codec_get(struct codec_reader *r, size_t width)
{
	uint64_t v = 0;

	if (r->n < width) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < width; i++)
		v |= (uint64_t)r->p[i] << (8 * i);
	r->p += width;
	r->n -= width;
	return v;
}

const char *codec_get_string(struct codec_reader *r, size_t cap)
{
	size_t len = codec_get(r, 2);
	const char *s = (const char *)r->p;

	if (r->bad || len >= cap || r->n < len + 1 || memchr(s, '\0', len + 1) != s + len) {
		r->bad = true;
		return "";
	}
	r->p += len + 1;
	r->n -= len + 1;
	return s;
}

void codec_put(struct codec_writer *w, size_t width, uint64_t v)
{
	if (w->n < width) {
		w->bad = true;
		return;
	}
	for (size_t i = 0; i < width; i++)
		w->p[i] = (uint8_t)(v >> (8 * i));
	w->p += width;
	w->n -= width;
}

void codec_put_string(struct codec_writer *w, size_t cap, const char *s)
{
	size_t len = s == NULL ? 0 : strlen(s);

	if (len >= cap || w->n < 2 + len + 1) {
		w->bad = true;
		return;
	}
	codec_put(w, 2, len);
	if (len > 0)
		memcpy(w->p, s, len);
	w->p[len] = '\0';
	w->p += len + 1;
	w->n -= len + 1;
}
