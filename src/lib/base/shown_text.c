#include "lib/base/shown_text.h"

#include <string.h>

#include "lib/base/utf8.h"

#define ONE_MAX 12 /* characters of one escape, with its NUL */
#define HEX_MAX 4  /* characters of "\\x1b" */

static const char digits[] = "0123456789abcdef";

/* Without printf(3): a program may write nothing but control bytes, and a million calls of
 * printf(3) would block the event loop. */
static void shown_put_hex(char to[HEX_MAX], uint8_t c)
{
	to[0] = '\\';
	to[1] = 'x';
	to[2] = digits[c >> 4];
	to[3] = digits[c & 15];
}

/* One character as it is shown, or "" if it stands as it is. *ret_len: its bytes. */
static void shown_escape(const uint8_t *p, size_t n, size_t *ret_len, char ret[ONE_MAX])
{
	size_t len = utf8_length(p, n);
	unsigned code, digits_n;

	memset(ret, 0, ONE_MAX);
	*ret_len = len == 0 ? 1 : len;
	if (len == 0 || (len == 1 && utf8_is_control(p, 1) && p[0] != '\n' && p[0] != '\t')) {
		shown_put_hex(ret, p[0]);
	} else if (len > 1 && utf8_is_control(p, len)) {
		code = utf8_code(p, len);
		digits_n = code > 0xffff ? 8 : 4;
		ret[0] = '\\';
		ret[1] = digits_n == 8 ? 'U' : 'u';
		for (unsigned i = 0; i < digits_n; i++)
			ret[2 + i] = digits[code >> (4 * (digits_n - 1 - i)) & 15];
	}
}

/* Add the next character. How many bytes of text it takes. *ret_len: bytes of the input. to NULL:
 * only counts. */
static size_t shown_step(struct buf *to, const uint8_t *p, size_t n, size_t *ret_len)
{
	char text[ONE_MAX];
	size_t shown;

	if (n >= 2 && p[0] == '\r' && p[1] == '\n') {
		*ret_len = 1;
		return 0;
	}
	shown_escape(p, n, ret_len, text);
	shown = text[0] == '\0' ? *ret_len : strlen(text);
	if (to != NULL && text[0] == '\0')
		buf_put(to, p, *ret_len);
	else if (to != NULL)
		buf_put(to, text, shown);
	return shown;
}

/* ---- runs: most text consists of few */

static bool shown_is_plain(uint8_t c)
{
	return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t';
}

static size_t shown_plain_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && shown_is_plain(p[i]))
		i++;
	return i;
}

static size_t shown_control_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] < 0x80 && !shown_is_plain(p[i]) && p[i] != '\r')
		i++;
	return i;
}

static void shown_put_controls(struct buf *to, const uint8_t *p, size_t n)
{
	struct err ignored;
	uint8_t *at = to->full ? NULL : buf_reserve(to, HEX_MAX * n, &ignored);

	if (at == NULL) {
		to->full = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		shown_put_hex((char *)at + HEX_MAX * i, p[i]);
	buf_commit(to, HEX_MAX * n);
}

/* Add the text at p, at most max bytes: a run, or one character. Return how many bytes of text were
 * added. *ret_len: bytes of the input, 0 if there is no room for the next character. */
static size_t shown_put_some(struct buf *to, const uint8_t *p, size_t n, size_t max,
			     size_t *ret_len)
{
	size_t run = shown_plain_run(p, n < max ? n : max), len;

	*ret_len = run;
	if (run > 0) {
		buf_put(to, p, run);
		return run;
	}
	run = shown_control_run(p, n < max / HEX_MAX ? n : max / HEX_MAX);
	*ret_len = run;
	if (run > 0) {
		shown_put_controls(to, p, run);
		return HEX_MAX * run;
	}
	if (shown_step(NULL, p, n, &len) > max)
		return 0;
	return shown_step(to, p, n, ret_len);
}

size_t shown_text_head(struct buf *to, const uint8_t *bytes, size_t n, size_t max)
{
	size_t done = 0, used = 0, len = 1;

	for (; done < n && len > 0; done += len)
		used += shown_put_some(to, bytes + done, n - done, max - used, &len);
	return done;
}

size_t shown_text_tail(struct buf *to, const uint8_t *bytes, size_t n, size_t max)
{
	size_t all = 0, at = 0, len;

	/* A character that began before is left out. */
	while (at < n && at < 3 && (bytes[at] & 0xc0U) == 0x80U)
		at++;
	for (size_t i = at; i < n; i += len)
		all += shown_step(NULL, bytes + i, n - i, &len);
	for (; at < n && all > max; at += len)
		all -= shown_step(NULL, bytes + at, n - at, &len);
	shown_text(to, bytes + at, n - at);
	return n - at;
}

void shown_text(struct buf *to, const uint8_t *bytes, size_t n)
{
	for (size_t len; n > 0; bytes += len, n -= len)
		(void)shown_put_some(to, bytes, n, SIZE_MAX, &len);
}
