#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#define FIRST_CAP 1024

/* Doubles what is owned until n more bytes and the NUL fit. */
static bool grow(struct json *j, size_t n)
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

/* Is there room for n bytes more? If not, it is full. */
static bool has_room(struct json *j, size_t n)
{
	if (j->full || (j->len + n + 1 > j->cap && !grow(j, n)))
		j->full = true;
	return !j->full;
}

static void put(struct json *j, const char *bytes, size_t n)
{
	if (!has_room(j, n))
		return;
	memcpy(j->text + j->len, bytes, n);
	j->len += n;
	j->text[j->len] = '\0';
}

static void put_text(struct json *j, const char *text)
{
	put(j, text, strlen(text));
}

/* How many bytes at s stand for themselves: most text is one such run. */
static size_t plain(const char *s, size_t left)
{
	size_t n = 0;

	while (n < left && s[n] >= 0x20 && s[n] != 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

/* How many bytes at s are written as escapes of the form \u00XX. */
static size_t coded(const char *s, size_t left)
{
	size_t n = 0;

	while (n < left &&
	       (((unsigned char)s[n] < 0x20 && s[n] != '\n' && s[n] != '\t') || s[n] == 0x7f))
		n++;
	return n;
}

/* Without printf(3), and a whole run at once: output of a program may consist of such bytes only,
 * and a million calls of printf(3) would block the event loop. */
static void put_codes(struct json *j, const char *s, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *to;

	if (!has_room(j, 6 * n))
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
static size_t paired(const char *s, size_t left)
{
	size_t n = 0;

	while (n < left && (s[n] == '"' || s[n] == '\\' || s[n] == '\n' || s[n] == '\t'))
		n++;
	return n;
}

static void put_pairs(struct json *j, const char *s, size_t n)
{
	char *to;

	if (!has_room(j, 2 * n))
		return;
	to = j->text + j->len;
	for (size_t i = 0; i < n; i++) {
		*to++ = '\\';
		*to++ = (char)(s[i] == '\n' ? 'n' : s[i] == '\t' ? 't' : s[i]);
	}
	*to = '\0';
	j->len += 2 * n;
}

/* Writes what is at s as part of a text: a run of bytes that are written alike, or one character.
 * Returns how many bytes that were. */
static size_t put_some(struct json *j, const char *s, size_t left)
{
	size_t n = plain(s, left);

	if (n > 0) {
		put(j, s, n);
		return n;
	}
	n = coded(s, left);
	if (n > 0) {
		put_codes(j, s, n);
		return n;
	}
	n = paired(s, left);
	if (n > 0) {
		put_pairs(j, s, n);
		return n;
	}
	n = utf8_length((const uint8_t *)s, left);
	if (n == 0) {
		put_text(j, "\\ufffd");
		return 1;
	}
	put(j, s, n);
	return n;
}

static void put_escaped(struct json *j, const char *s, size_t left)
{
	while (left > 0 && !j->full) {
		size_t n = put_some(j, s, left);

		s += n;
		left -= n;
	}
}

static void put_quoted(struct json *j, const char *s, size_t left)
{
	put_text(j, "\"");
	put_escaped(j, s, left);
	put_text(j, "\"");
}

static void begin(struct json *j, const char *name)
{
	if (j->comma)
		put_text(j, ",");
	j->comma = true;
	if (name != NULL) {
		put_quoted(j, name, strlen(name));
		put_text(j, ":");
	}
}

void json_init(struct json *j, char *text, size_t cap)
{
	*j = (struct json){ .text = text, .cap = cap };
	text[0] = '\0';
}

void json_init_heap(struct json *j, size_t max)
{
	*j = (struct json){ .max = max };
	put(j, "", 0);
}

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
	begin(j, name);
	put(j, &bracket, 1);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	put(j, &bracket, 1);
	j->comma = true;
}

void json_text(struct json *j, const char *name, const char *value)
{
	begin(j, name);
	if (value == NULL)
		put_text(j, "null");
	else
		put_quoted(j, value, strlen(value));
}

void json_bytes(struct json *j, const char *name, const void *value, size_t n)
{
	begin(j, name);
	put_quoted(j, value, n);
}

void json_begin_text(struct json *j, const char *name)
{
	begin(j, name);
	put_text(j, "\"");
}

void json_add_text(struct json *j, const void *value, size_t n)
{
	put_escaped(j, value, n);
}

void json_end_text(struct json *j)
{
	put_text(j, "\"");
}

void json_raw(struct json *j, const char *name, const char *value)
{
	json_raw_bytes(j, name, value, strlen(value));
}

void json_raw_bytes(struct json *j, const char *name, const char *value, size_t n)
{
	begin(j, name);
	put(j, value, n);
}

void json_uint(struct json *j, const char *name, uint64_t value)
{
	char digits[24];

	begin(j, name);
	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	put_text(j, digits);
}

void json_int(struct json *j, const char *name, int64_t value)
{
	char digits[24];

	begin(j, name);
	(void)snprintf(digits, sizeof(digits), "%lld", (long long)value);
	put_text(j, digits);
}

void json_bool(struct json *j, const char *name, bool value)
{
	begin(j, name);
	put_text(j, value ? "true" : "false");
}

void json_none(struct json *j, const char *name)
{
	json_text(j, name, NULL);
}
