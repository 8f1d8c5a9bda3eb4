#include "base64.h"

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

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t n, uint8_t *ret)
{
	size_t pad = 0, out = 0;
	uint32_t bits = 0;

	if (n % 4 != 0)
		return -1;
	if (n > 0 && text[n - 1] == '=')
		pad = text[n - 2] == '=' ? 2 : 1;
	for (size_t i = 0; i < n - pad; i++) {
		int v = value_of(text[i]);

		if (v < 0)
			return -1;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 > 0)
			ret[out++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
	}
	/* With padding, the last character has bits that no byte takes. */
	if ((pad == 1 && (bits & 3) != 0) || (pad == 2 && (bits & 15) != 0))
		return -1;
	return (ssize_t)out;
}
