#include "lib/base/hex.h"

#include <stdint.h>

void hex_encode(const void *bytes, size_t n, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++) {
		*ret_text++ = digits[p[i] >> 4];
		*ret_text++ = digits[p[i] & 15];
	}
	*ret_text = '\0';
}

#define NO_DIGIT 16U

static unsigned hex_value_of(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return NO_DIGIT;
}

int hex_decode(const char *text, size_t len, void *ret_bytes, size_t n, struct err *e)
{
	uint8_t *p = ret_bytes;

	if (len % 2 != 0 || len / 2 != n)
		return err_set(e, ERR_INVALID, "not %zu hexadecimal digits", 2 * n);
	for (size_t i = 0; i < len; i++)
		if (hex_value_of(text[i]) == NO_DIGIT)
			return err_set(e, ERR_INVALID, "not %zu hexadecimal digits", 2 * n);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(hex_value_of(text[2 * i]) << 4 | hex_value_of(text[2 * i + 1]));
	return 0;
}
