/* A value, a pattern and a text: cut anywhere it is masked as the whole is, lengths stay, what is
 * not covered is as it was, and the value is nowhere any more, in no encoding.
 *
 * Bytes: length of the value, length of the pattern, where the text is cut (twice), value, pattern,
 * text. In the text the byte 0x01 stands for the value, 0x02 for its base64. */
#include "fuzz.h"

#include "lib/base/base64.h"
#include "lib/mask/mask.h"

unsigned long fuzz_accepted;

struct text {
	uint8_t *p;
	size_t n;
};

static struct text expand(const uint8_t *data, size_t size, const char *value, size_t len)
{
	size_t each = BASE64_LENGTH(len) + 1;
	struct text t = { .p = malloc(size * each + 1) };
	char *coded = malloc(each);

	assert(t.p != NULL && coded != NULL);
	base64_encode(value, len, coded);
	for (size_t i = 0; i < size; i++) {
		const void *from = data[i] == 1	  ? value
				   : data[i] == 2 ? coded
						  : (const void *)(data + i);
		size_t n = data[i] == 1 ? len : data[i] == 2 ? strlen(coded) : 1;

		memcpy(t.p + t.n, from, n);
		t.n += n;
	}
	free(coded);
	return t;
}

/* Gives a piece to a stream, from memory of its exact size. */
static size_t feed(const struct mask *m, struct mask_stream *s, const uint8_t *from, size_t len,
		   uint8_t *out)
{
	uint8_t *piece = fuzz_copy(from, len);
	size_t held = mask_stream_held(s), n = mask_feed(m, s, piece, len, out);

	assert(mask_stream_held(s) == held + len - n);
	assert(mask_stream_held(s) <= 2 * mask_hold(m));
	assert(len == 0 || n == 0 || mask_stream_held(s) >= mask_hold(m));
	free(piece);
	return n;
}

static void check_pieces(const struct mask *m, struct text t, const uint8_t *want, size_t a,
			 size_t b)
{
	size_t cuts[] = { 0, a, b, t.n }, n = 0;
	struct mask_stream s = { 0 };
	uint8_t *out = malloc(2 * t.n + 2 * mask_hold(m) + 1);

	assert(out != NULL);
	for (size_t i = 0; i < 3; i++)
		n += feed(m, &s, t.p + cuts[i], cuts[i + 1] - cuts[i], out + n);
	n += mask_end(m, &s, out + n);
	assert(n == t.n && (t.n > mask_hold(m) || memcmp(out, want, n) == 0));
	free(out);
}

/* With ticks in between: no more and no fewer bytes, none covered that is not so in the whole. */
static void check_ticks(const struct mask *m, struct text t, const uint8_t *want, size_t a,
			size_t b)
{
	struct mask_stream s = { 0 };
	uint8_t *out = malloc(2 * t.n + 2 * mask_hold(m) + 1);
	size_t n;

	assert(out != NULL);
	n = feed(m, &s, t.p, a, out);
	n += mask_tick(m, &s, (a & 1) != 0, out + n);
	n += feed(m, &s, t.p + a, b - a, out + n);
	n += mask_tick(m, &s, (b & 1) != 0, out + n);
	n += mask_flush(m, &s, out + n);
	assert(n == b);
	n += feed(m, &s, t.p + b, t.n - b, out + n);
	n += mask_end(m, &s, out + n);
	assert(n == t.n);
	for (size_t i = 0; i < n; i++)
		assert(out[i] == t.p[i] || (out[i] == '*' && want[i] == '*'));
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len, plen, a, b;
	char *value, *pattern;
	const char *const *patterns;
	struct mask *m;
	struct text t;
	struct err e;
	uint8_t *whole;

	if (size < 4 || (size_t)data[0] + data[1] + 4 > size)
		return 0;
	len = data[0];
	plen = data[1];
	value = (char *)fuzz_text(data + 4, len);
	pattern = fuzz_text(data + 4 + len, plen);
	patterns = (const char *const *)&pattern;
	m = mask_new((const char *const *)&value, &len, 1, patterns, plen > 0, &e);
	if (m != NULL) {
		fuzz_accepted++;
		t = expand(data + 4 + len + plen, size - 4 - len - plen, value, len);
		a = t.n * data[2] / 256;
		b = a + (t.n - a) * data[3] / 256;
		whole = fuzz_copy(t.p, t.n);
		(void)mask_text(m, NULL, whole, t.n);
		for (size_t i = 0; i < t.n; i++)
			assert(whole[i] == '*' || whole[i] == t.p[i]);
		assert(len < MASK_VALUE_MIN || memchr(value, '*', len) != NULL || t.n < len ||
		       memmem(whole, t.n, value, len) == NULL || memchr(value, '\n', len) != NULL ||
		       memchr(value, '\r', len) != NULL);
		check_pieces(m, t, whole, a, b);
		check_ticks(m, t, whole, a, b);
		free(whole);
		free(t.p);
		mask_free(m);
	}
	free(value);
	free(pattern);
	return 0;
}
