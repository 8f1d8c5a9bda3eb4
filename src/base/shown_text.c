#include "shown_text.h"

#include <stdio.h>
#include <string.h>

#include "utf8.h"

#define ONE_MAX 8 /* characters of one escape, with its NUL */

/* One character as it is shown, or "" if it stands as it is; *ret_len: its bytes. */
static void escape(const uint8_t *p, size_t n, size_t *ret_len, char ret[ONE_MAX])
{
	size_t len = utf8_length(p, n);

	ret[0] = '\0';
	*ret_len = len == 0 ? 1 : len;
	if (len == 0 || (len == 1 && utf8_is_control(p, 1) && p[0] != '\n' && p[0] != '\t'))
		(void)snprintf(ret, ONE_MAX, "\\x%02x", p[0]);
	else if (len > 1 && utf8_is_control(p, len))
		(void)snprintf(ret, ONE_MAX, "\\u%04x", utf8_code(p, len) & 0xffffU);
}

/* Adds the next character; how many bytes of text it takes. *ret_len: bytes of the input. to NULL:
 * only counts. */
static size_t step(struct buf *to, const uint8_t *p, size_t n, size_t *ret_len)
{
	char text[ONE_MAX];
	size_t shown;

	if (n >= 2 && p[0] == '\r' && p[1] == '\n') {
		*ret_len = 1;
		return 0;
	}
	escape(p, n, ret_len, text);
	shown = text[0] == '\0' ? *ret_len : strlen(text);
	if (to != NULL && text[0] == '\0')
		buf_put(to, p, *ret_len);
	else if (to != NULL)
		buf_put(to, text, shown);
	return shown;
}

size_t shown_text_head(struct buf *to, const uint8_t *bytes, size_t n, size_t max)
{
	size_t done = 0, used = 0, len;

	while (done < n) {
		size_t shown = step(NULL, bytes + done, n - done, &len);

		if (used + shown > max)
			break;
		(void)step(to, bytes + done, n - done, &len);
		used += shown;
		done += len;
	}
	return done;
}

size_t shown_text_tail(struct buf *to, const uint8_t *bytes, size_t n, size_t max)
{
	size_t all = 0, at = 0, len;

	/* A character that began before is left out. */
	while (at < n && at < 3 && (bytes[at] & 0xc0U) == 0x80U)
		at++;
	for (size_t i = at; i < n; i += len)
		all += step(NULL, bytes + i, n - i, &len);
	for (; at < n && all > max; at += len)
		all -= step(NULL, bytes + at, n - at, &len);
	shown_text(to, bytes + at, n - at);
	return n - at;
}

void shown_text(struct buf *to, const uint8_t *bytes, size_t n)
{
	for (size_t len; n > 0; bytes += len, n -= len)
		(void)step(to, bytes, n, &len);
}
