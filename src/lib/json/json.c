#include "lib/json/json.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"

/* Every write goes through json_has_room(). Once it has refused, j->full stays set and later writes
 * do nothing, so no writer checks a result. The text ends behind a whole piece, with a NUL. */
#define FIRST_CAP 1024

/* Double the owned memory until n more bytes and the NUL fit. False: borrowed memory (max is 0),
 * the bound max, or out of memory. A secret text is moved by hand, because realloc(3) would leave a
 * copy behind. */
static bool json_grow(struct json *j, size_t n)
{
	size_t cap = j->cap == 0 ? FIRST_CAP : j->cap;
	char *text;

	if (n >= j->max || j->len + n + 1 > j->max)
		return false;
	while (cap < j->len + n + 1)
		cap *= 2;
	cap = cap < j->max ? cap : j->max;
	text = j->secret ? malloc(cap) : realloc(j->text, cap);
	if (text == NULL)
		return false;
	if (j->secret && j->text != NULL) {
		memcpy(text, j->text, j->len + 1);
		explicit_bzero(j->text, j->cap);
		free(j->text);
	}
	j->text = text;
	j->cap = cap;
	return true;
}

/* Is there room for n bytes more? If not, it is full. The room includes the NUL. */
static bool json_has_room(struct json *j, size_t n)
{
	if (j->full || (j->len + n + 1 > j->cap && !json_grow(j, n)))
		j->full = true;
	return !j->full;
}

static void json_put(struct json *j, const char *bytes, size_t n)
{
	if (!json_has_room(j, n))
		return;
	memcpy(j->text + j->len, bytes, n);
	j->len += n;
	j->text[j->len] = '\0';
}

static void json_put_text(struct json *j, const char *text)
{
	json_put(j, text, strlen(text));
}

/* How many bytes at s stand for themselves: most text is one such run. */
static size_t json_plain(const char *s, size_t left)
{
	size_t n = 0;

	while (n < left && s[n] >= 0x20 && s[n] != 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

/* How many bytes at s are written as escapes of the form \u00XX. The characters that have a short
 * escape are left to json_paired(). */
static size_t json_coded(const char *s, size_t left)
{
	size_t n = 0;

	while (n < left &&
	       (((unsigned char)s[n] < 0x20 && s[n] != '\n' && s[n] != '\t') || s[n] == 0x7f))
		n++;
	return n;
}

/* Without printf(3), and a whole run at once: output of a program may consist of such bytes only,
 * and a million calls of printf(3) would block the event loop. */
static void json_put_codes(struct json *j, const char *s, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *to;

	if (!json_has_room(j, 6 * n))
		return;
	to = j->text + j->len;
	for (size_t i = 0; i < n; i++, to += 6) {
		unsigned char c = (unsigned char)s[i];

		memcpy(to, "\\u00", 4);
		to[4] = digits[c >> 4];
		to[5] = digits[c & 15];
	}
	*to = '\0';
	j->len += 6 * n;
}

/* How many bytes at s are written as a backslash and a character. */
static size_t json_paired(const char *s, size_t left)
{
	size_t n = 0;

	while (n < left && (s[n] == '"' || s[n] == '\\' || s[n] == '\n' || s[n] == '\t'))
		n++;
	return n;
}

/* Room is asked for once for the whole run, so a run is written whole or not at all. */
static void json_put_pairs(struct json *j, const char *s, size_t n)
{
	char *to;

	if (!json_has_room(j, 2 * n))
		return;
	to = j->text + j->len;
	for (size_t i = 0; i < n; i++) {
		*to++ = '\\';
		*to++ = (char)(s[i] == '\n' ? 'n' : s[i] == '\t' ? 't' : s[i]);
	}
	*to = '\0';
	j->len += 2 * n;
}

/* Write the bytes at s as part of a text: a run of bytes written alike, or one character. Return
 * how many bytes were written. The order puts the most frequent case first. A byte outside UTF-8
 * counts as one and becomes U+FFFD. */
static size_t json_put_some(struct json *j, const char *s, size_t left)
{
	size_t n = json_plain(s, left);

	if (n > 0) {
		json_put(j, s, n);
		return n;
	}
	n = json_coded(s, left);
	if (n > 0) {
		json_put_codes(j, s, n);
		return n;
	}
	n = json_paired(s, left);
	if (n > 0) {
		json_put_pairs(j, s, n);
		return n;
	}
	n = utf8_length((const uint8_t *)s, left);
	if (n == 0) {
		json_put_text(j, "\\ufffd");
		return 1;
	}
	json_put(j, s, n);
	return n;
}

/* A long text stops at the first refusal, as the rest would only be measured. */
static void json_put_escaped(struct json *j, const char *s, size_t left)
{
	while (left > 0 && !j->full) {
		size_t n = json_put_some(j, s, left);

		s += n;
		left -= n;
	}
}

/* A text that stands for itself, as nearly all do, is written in one piece with its quotes. end:
 * what follows. */
static void json_put_quoted(struct json *j, const char *s, size_t n, const char *end)
{
	size_t more = strlen(end);
	char *to;

	if (json_plain(s, n) < n) {
		json_put(j, "\"", 1);
		json_put_escaped(j, s, n);
		json_put(j, end, more);
		return;
	}
	if (!json_has_room(j, n + more + 1))
		return;
	to = j->text + j->len;
	*to = '"';
	if (n > 0)
		memcpy(to + 1, s, n);
	memcpy(to + 1 + n, end, more + 1);
	j->len += n + more + 1;
}

/* Each value begins here: the comma after its predecessor, then its name with a colon. */
static void json_begin(struct json *j, const char *name)
{
	if (j->comma)
		json_put(j, ",", 1);
	j->comma = true;
	if (name != NULL)
		json_put_quoted(j, name, strlen(name), "\":");
}

void json_init(struct json *j, char *text, size_t cap)
{
	*j = (struct json){ .text = text, .cap = cap };
	text[0] = '\0';
}

void json_init_heap(struct json *j, size_t max)
{
	*j = (struct json){ .max = max };
	json_put(j, "", 0);
}

/* The result is full, so a later write does not touch freed memory. */
void json_release(struct json *j)
{
	if (j->secret && j->text != NULL)
		explicit_bzero(j->text, j->cap);
	if (j->max > 0)
		free(j->text);
	*j = (struct json){ .full = true };
}

void json_keep_secret(struct json *j)
{
	j->secret = true;
}

bool json_ok(const struct json *j)
{
	return !j->full;
}

void json_open(struct json *j, const char *name, char bracket)
{
	json_begin(j, name);
	json_put(j, &bracket, 1);
	j->comma = false;
}

/* The next value stands beside the closed one, so it needs a comma. */
void json_close(struct json *j, char bracket)
{
	json_put(j, &bracket, 1);
	j->comma = true;
}

void json_text(struct json *j, const char *name, const char *value)
{
	json_begin(j, name);
	if (value == NULL)
		json_put_text(j, "null");
	else
		json_put_quoted(j, value, strlen(value), "\"");
}

void json_bytes(struct json *j, const char *name, const void *value, size_t n)
{
	json_begin(j, name);
	json_put_quoted(j, value, n, "\"");
}

void json_begin_text(struct json *j, const char *name)
{
	json_begin(j, name);
	json_put_text(j, "\"");
}

void json_add_text(struct json *j, const void *value, size_t n)
{
	json_put_escaped(j, value, n);
}

void json_end_text(struct json *j)
{
	json_put_text(j, "\"");
}

void json_raw(struct json *j, const char *name, const char *value)
{
	json_raw_bytes(j, name, value, strlen(value));
}

void json_raw_bytes(struct json *j, const char *name, const char *value, size_t n)
{
	json_begin(j, name);
	json_put(j, value, n);
}

/* Without printf(3): an answer has dozens of numbers. 24 bytes hold the longest number of 64 bits
 * with its sign. */
static void json_put_number(struct json *j, uint64_t value, bool negative)
{
	char digits[24];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + value % 10);
	while ((value /= 10) > 0);
	if (negative)
		digits[--at] = '-';
	json_put(j, digits + at, sizeof(digits) - at);
}

void json_uint(struct json *j, const char *name, uint64_t value)
{
	json_begin(j, name);
	json_put_number(j, value, false);
}

/* The magnitude is computed unsigned, because -INT64_MIN is no int64_t. */
void json_int(struct json *j, const char *name, int64_t value)
{
	json_begin(j, name);
	json_put_number(j, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void json_bool(struct json *j, const char *name, bool value)
{
	json_begin(j, name);
	json_put_text(j, value ? "true" : "false");
}

void json_none(struct json *j, const char *name)
{
	json_text(j, name, NULL);
}
