#include "lib/base/base64.h"

#include <stdbool.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t n, char *ret)
{
	const uint8_t *p = bytes;

	for (; n >= 3; n -= 3, p += 3) {
		*ret++ = alphabet[p[0] >> 2];
		*ret++ = alphabet[(p[0] & 3) << 4 | p[1] >> 4];
		*ret++ = alphabet[(p[1] & 15) << 2 | p[2] >> 6];
		*ret++ = alphabet[p[2] & 63];
	}
	if (n > 0) {
		*ret++ = alphabet[p[0] >> 2];
		*ret++ = alphabet[(p[0] & 3) << 4 | (n > 1 ? p[1] >> 4 : 0)];
		*ret = '=';
		if (n > 1)
			*ret = alphabet[(p[1] & 15) << 2];
		ret++;
		*ret++ = '=';
	}
	*ret = '\0';
}

static int base64_value_of(char c, bool any)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || (any && c == '-'))
		return 62;
	return c == '/' || (any && c == '_') ? 63 : -1;
}

/* Characters without their padding. */
static ssize_t base64_decode_text(const char *text, size_t n, bool any, uint8_t *ret)
{
	static const uint32_t unused[] = { 0, 63, 15, 3 }; /* bits that no byte takes */
	uint32_t bits = 0;
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		int v = base64_value_of(text[i], any);

		if (v < 0)
			return -1;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 > 0)
			ret[out++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
	}
	return n % 4 == 1 || (bits & unused[n % 4]) != 0 ? -1 : (ssize_t)out;
}

static size_t base64_padding(const char *text, size_t n)
{
	if (n < 2 || text[n - 1] != '=')
		return 0;
	return text[n - 2] == '=' ? 2 : 1;
}

ssize_t base64_decode(const char *text, size_t n, uint8_t *ret)
{
	return n % 4 != 0 ? -1 : base64_decode_text(text, n - base64_padding(text, n), false, ret);
}

ssize_t base64_decode_any(const char *text, size_t n, uint8_t *ret)
{
	return base64_decode_text(text, n - base64_padding(text, n), true, ret);
}
