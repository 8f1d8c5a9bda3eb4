#include "json.h"

#include <stdio.h>
#include <string.h>

#include "utf8.h"

static void put(struct json *j, const char *bytes, size_t n)
{
	if (j->full || j->len + n + 1 > j->cap) {
		j->full = true;
		return;
	}
	memcpy(j->text + j->len, bytes, n);
	j->len += n;
	j->text[j->len] = '\0';
}

static void put_text(struct json *j, const char *text)
{
	put(j, text, strlen(text));
}

static void put_quoted(struct json *j, const char *s)
{
	size_t left = strlen(s);
	char hex[8];

	put_text(j, "\"");
	while (left > 0) {
		size_t n = utf8_length((const uint8_t *)s, left);

		if (n == 0) {
			put_text(j, "\\ufffd");
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			char pair[2] = { '\\', *s };

			put(j, pair, 2);
		} else if ((unsigned char)*s < 0x20 || *s == 0x7f) {
			(void)snprintf(hex, sizeof(hex), "\\u%04x", (unsigned)(unsigned char)*s);
			put_text(j, hex);
		} else {
			put(j, s, n);
		}
		s += n;
		left -= n;
	}
	put_text(j, "\"");
}

static void begin(struct json *j, const char *name)
{
	if (j->comma)
		put_text(j, ",");
	j->comma = true;
	if (name != NULL) {
		put_quoted(j, name);
		put_text(j, ":");
	}
}

void json_init(struct json *j, char *text, size_t cap)
{
	*j = (struct json){ .text = text, .cap = cap };
	text[0] = '\0';
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

void json_string(struct json *j, const char *name, const char *value)
{
	begin(j, name);
	if (value == NULL)
		put_text(j, "null");
	else
		put_quoted(j, value);
}

void json_uint(struct json *j, const char *name, uint64_t value)
{
	char digits[24];

	begin(j, name);
	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	put_text(j, digits);
}

void json_bool(struct json *j, const char *name, bool value)
{
	begin(j, name);
	put_text(j, value ? "true" : "false");
}

void json_null(struct json *j, const char *name)
{
	json_string(j, name, NULL);
}
