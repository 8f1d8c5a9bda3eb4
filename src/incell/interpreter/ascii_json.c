#include "incell/interpreter/ascii_json.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

/* One UTF-16 unit as an escape. */
static void put_unit(struct buf *b, unsigned unit)
{
	static const char digits[] = "0123456789abcdef";
	char text[6] = { '\\', 'u' };

	for (int i = 0; i < 4; i++)
		text[2 + i] = digits[unit >> (12 - 4 * i) & 15];
	buf_put(b, text, sizeof(text));
}

/* Characters beyond the first plane become a surrogate pair. */
static void put_code(struct buf *b, unsigned code)
{
	if (code < 0x10000) {
		put_unit(b, code);
		return;
	}
	code -= 0x10000;
	put_unit(b, 0xd800 | code >> 10);
	put_unit(b, 0xdc00 | (code & 0x3ff));
}

/* At a byte outside ASCII. Return how many bytes it used. */
static size_t put_other(struct buf *b, const uint8_t *p, size_t left)
{
	size_t n = utf8_length(p, left);

	put_code(b, n == 0 ? 0xfffd : utf8_code(p, n));
	return n == 0 ? 1 : n;
}

/* The text is JSON already, so quotes and escapes stay. */
static void put_json(struct buf *b, const char *text, size_t n)
{
	const uint8_t *p = (const uint8_t *)text, *end = p + n;

	while (p < end) {
		const uint8_t *from = p;

		while (p < end && *p >= 0x20 && *p < 0x7f)
			p++;
		if (p > from)
			buf_put(b, from, (size_t)(p - from));
		if (p == end)
			break;
		if (*p >= 0x80) {
			p += put_other(b, p, (size_t)(end - p));
		} else { /* white space between values, or DEL in a text */
			if (*p == 0x7f)
				put_unit(b, *p);
			else
				buf_put(b, " ", 1);
			p++;
		}
	}
}

void ascii_json_value(struct buf *b, struct json_value v)
{
	put_json(b, v.p, v.n);
}

/* Short escapes where JSON has them. */
static void put_control(struct buf *b, uint8_t c)
{
	static const char names[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
	const char *at = c == 0 ? NULL : strchr(names, c);

	if (at == NULL)
		put_unit(b, c);
	else
		buf_put(b, (char[]){ '\\', letters[at - names] }, 2);
}

void ascii_json_bytes(struct buf *b, const void *bytes, size_t n)
{
	const uint8_t *p = bytes, *end = p + n;

	buf_put(b, "\"", 1);
	while (p < end) {
		const uint8_t *from = p;

		while (p < end && *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
			p++;
		if (p > from)
			buf_put(b, from, (size_t)(p - from));
		if (p == end)
			break;
		if (*p >= 0x80)
			p += put_other(b, p, (size_t)(end - p));
		else
			put_control(b, *p++);
	}
	buf_put(b, "\"", 1);
}

void ascii_json_text(struct buf *b, const char *text)
{
	ascii_json_bytes(b, text, strlen(text));
}

/* Length of a quote mark at p, as it stands in JSON: ' or \". */
static size_t mark_length(const char *p, size_t n)
{
	if (n >= 1 && p[0] == '\'')
		return 1;
	return n >= 2 && p[0] == '\\' && p[1] == '"' ? 2 : 0;
}

/* Both marks must be alike, or the text stays as it is. */
void ascii_json_unquoted(struct buf *b, struct json_value v)
{
	const char *text = v.p + 1;
	size_t n = v.n - 2, mark = mark_length(text, n);

	/* A \" at the end is a quote mark only if its backslash is not itself escaped. */
	if (mark == 2 && n >= 3 && text[n - 3] == '\\') {
		size_t backs = 0;

		while (backs < n - 1 && text[n - 2 - backs] == '\\')
			backs++;
		if (backs % 2 == 0)
			mark = 0;
	}
	if (mark == 0 || n < 2 * mark || memcmp(text, text + n - mark, mark) != 0) {
		ascii_json_value(b, v);
		return;
	}
	buf_put(b, "\"", 1);
	put_json(b, text + mark, n - 2 * mark);
	buf_put(b, "\"", 1);
}
