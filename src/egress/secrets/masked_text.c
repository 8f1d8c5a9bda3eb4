#include "egress/secrets/masked_text.h"

#include <stdlib.h>
#include <string.h>

/* NULL: out of memory. The caller wipes and frees it. */
static uint8_t *masked_copy(const struct mask *m, const void *value, size_t n)
{
	uint8_t *copy = malloc(n + 1);

	if (copy == NULL)
		return NULL;
	memcpy(copy, value, n);
	(void)mask_text(m, NULL, copy, n);
	return copy;
}

/* Write the copy, and wipe it. NULL: null. */
static void write_copy(struct json *j, const char *name, uint8_t *copy, size_t n)
{
	if (copy == NULL) {
		json_none(j, name);
		return;
	}
	json_bytes(j, name, copy, n);
	explicit_bzero(copy, n);
	free(copy);
}

void masked_text_bytes(struct json *j, const struct mask *m, const char *name, const void *value,
		       size_t n)
{
	if (m == NULL || n == 0)
		json_bytes(j, name, value, n);
	else
		write_copy(j, name, masked_copy(m, value, n), n);
}

void masked_text_head(struct json *j, const struct mask *m, const char *name, const void *value,
		      size_t n)
{
	uint8_t *copy;
	size_t end, at;

	if (m == NULL || n == 0) {
		json_bytes(j, name, value, n);
		return;
	}
	/* Line breaks inside of a secret are not counted by mask_reach(). */
	end = mask_reach(m) < mask_hold(m) ? mask_hold(m) : mask_reach(m);
	at = n > end ? n - end : 0;
	copy = masked_copy(m, value, n);
	while (copy != NULL && at > 0 && (copy[at] & 0xc0) == 0x80)
		at--; /* not inside of a character */
	if (copy != NULL)
		memset(copy + at, '*', n - at);
	write_copy(j, name, copy, n);
}

/* Cover the beginnings of a secret in the text. secret: in the form that it has in another text.
 */
static void masked_text_cover(uint8_t *text, size_t n, const char *secret, size_t len)
{
	uint8_t *at = text;

	if (len < MASK_VALUE_MIN)
		return;
	while ((at = memmem(at, (size_t)(text + n - at), secret, MASK_VALUE_MIN)) != NULL) {
		size_t most = (size_t)(text + n - at), same = 0;

		while (same < most && same < len && at[same] == (uint8_t)secret[same])
			same++;
		memset(at, '*', same);
		at += same;
	}
}

/* Cover the beginnings of another text's secrets. False: out of memory. */
static bool cover_parts(uint8_t *text, size_t n, const struct mask *m, const char *from)
{
	size_t len = strlen(from), end;
	uint8_t *masked = masked_copy(m, from, len);

	if (masked == NULL)
		return false;
	for (size_t at = 0; at < len; at = end + 1) {
		for (end = at; end < len && masked[end] != (uint8_t)from[end];)
			end++;
		masked_text_cover(text, n, from + at, end - at);
	}
	explicit_bzero(masked, len);
	free(masked);
	return true;
}

void masked_text_about(struct json *j, const struct mask *m, const char *name, const char *value,
		       const char *const from[MASKED_TEXT_FROM_MAX])
{
	size_t n = strlen(value);
	uint8_t *copy;

	if (m == NULL || n == 0) {
		json_text(j, name, value);
		return;
	}
	copy = masked_copy(m, value, n);
	for (size_t i = 0; copy != NULL && i < MASKED_TEXT_FROM_MAX; i++)
		if (from[i] != NULL && !cover_parts(copy, n, m, from[i]))
			memset(copy, '*', n);
	write_copy(j, name, copy, n);
}

void masked_text(struct json *j, const struct mask *m, const char *name, const char *value)
{
	if (value == NULL)
		json_none(j, name);
	else
		masked_text_bytes(j, m, name, value, strlen(value));
}
