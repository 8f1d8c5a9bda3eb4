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

/* "\u0041", or both halves of a character above U+FFFF, which JSON in ASCII has as "\ud83d\ude00".
 * A half without the other is NONE at the byte that shows it. */
static enum mask_escape read_unicode(const uint8_t *text, size_t n, uint32_t *ret)
{
	enum mask_escape got = read_hex(text, 2, n < 6 ? n : 6, 6, ret);
	uint32_t high = *ret;

	if (got != MASK_ESCAPE_WHOLE || high < 0xd800 || high > 0xdbff)
		return got;
	if ((n > 6 && text[6] != '\\') || (n > 7 && text[7] != 'u'))
		return MASK_ESCAPE_NONE;
	if (n <= 8)
		return MASK_ESCAPE_MORE;
	got = read_hex(text, 8, n, 12, ret);
	if (got == MASK_ESCAPE_WHOLE && (*ret < 0xdc00 || *ret > 0xdfff))
		return MASK_ESCAPE_NONE;
	*ret = 0x10000 + ((high & 0x3ff) << 10 | (*ret & 0x3ff));
	return got;
}

/* Behind a backslash. */
static enum mask_escape read_backslash(const uint8_t *text, size_t n, uint32_t *ret)
{
	static const char from[] = "\"\\/'bfnrt", to[] = "\"\\/'\b\f\n\r\t";
	const char *at;

	if (text[1] == 'u')
		return read_unicode(text, n, ret);
	if (text[1] == 'U') /* as Python and C write it */
		return read_hex(text, 2, n, 10, ret);
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
