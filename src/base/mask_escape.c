/* mask_escape.c - reads one escape of a URL, a JSON string or HTML, a byte at a time. */
#include <string.h>

#include "mask_private.h"

static int hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits from text[from] on; whole at n == whole. */
static enum mask_escape read_hex(const uint8_t *text, size_t from, size_t n, size_t whole,
				 uint32_t *ret)
{
	*ret = 0;
	for (size_t i = from; i < n; i++) {
		int digit = hex(text[i]);

		if (digit < 0)
			return MASK_ESCAPE_NONE;
		*ret = *ret * 16 + (uint32_t)digit;
	}
	return n < whole ? MASK_ESCAPE_MORE : MASK_ESCAPE_WHOLE;
}

/* Behind a backslash. */
static enum mask_escape read_backslash(const uint8_t *text, size_t n, uint32_t *ret)
{
	static const char from[] = "\"\\/'bfnrt", to[] = "\"\\/'\b\f\n\r\t";
	const char *at;

	if (text[1] == 'u')
		return read_hex(text, 2, n, 6, ret);
	if (text[1] == 'x')
		return read_hex(text, 2, n, 4, ret);
	at = text[1] == '\0' ? NULL : strchr(from, text[1]);
	if (at == NULL)
		return MASK_ESCAPE_NONE;
	*ret = (uint8_t)to[at - from];
	return MASK_ESCAPE_WHOLE;
}

/* Behind "&#": digits and ';'. */
static enum mask_escape read_number(const uint8_t *text, size_t n, uint32_t *ret)
{
	uint32_t base = n > 2 && (text[2] | 0x20) == 'x' ? 16 : 10;
	size_t i = base == 16 ? 3 : 2, first = i;

	*ret = 0;
	for (; i < n && text[i] != ';'; i++) {
		int digit = hex(text[i]);

		if (digit < 0 || digit >= (int)base)
			return MASK_ESCAPE_NONE;
		*ret = *ret * base + (uint32_t)digit;
	}
	if (i < n) /* at the ';' */
		return i > first && *ret <= 0x10ffff ? MASK_ESCAPE_WHOLE : MASK_ESCAPE_NONE;
	return n < MASK_ESCAPE_MAX ? MASK_ESCAPE_MORE : MASK_ESCAPE_NONE;
}

/* Behind '&'. */
static enum mask_escape read_entity(const uint8_t *text, size_t n, uint32_t *ret)
{
	static const struct {
		const char *name;
		char c;
	} names[] = {
		{ "&lt;", '<' },   { "&gt;", '>' },    { "&amp;", '&' },
		{ "&quot;", '"' }, { "&apos;", '\'' },
	};

	if (text[1] == '#')
		return read_number(text, n, ret);
	for (size_t i = 0; i < COUNT(names); i++) {
		size_t len = strlen(names[i].name);

		if (n > len || memcmp(text, names[i].name, n) != 0)
			continue;
		*ret = (uint8_t)names[i].c;
		return n < len ? MASK_ESCAPE_MORE : MASK_ESCAPE_WHOLE;
	}
	return MASK_ESCAPE_NONE;
}

enum mask_escape mask_escape_read(const uint8_t *text, size_t n, uint32_t *ret)
{
	if (n == 1)
		return MASK_ESCAPE_MORE;
	if (text[0] == '%')
		return read_hex(text, 1, n, 3, ret);
	return text[0] == '\\' ? read_backslash(text, n, ret) : read_entity(text, n, ret);
}
