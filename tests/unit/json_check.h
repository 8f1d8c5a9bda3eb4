/* json_check.h - is this JSON, and what does it say? For tests only; shares no code with base/json.
 *
 * A recursive descent over RFC 8259, strict about escapes, surrogates and UTF-8. Every function
 * takes where to begin and where the text ends, and returns what follows, or NULL if it is not
 * JSON. */
#ifndef CORDON_TESTS_UNIT_JSON_CHECK_H
#define CORDON_TESTS_UNIT_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define JSON_CHECK_DEPTH 128

static inline const char *json_check_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

static inline const char *json_check_hex4(const char *p, const char *end, unsigned *ret)
{
	*ret = 0;
	if (end - p < 4)
		return NULL;
	for (int i = 0; i < 4; i++, p++) {
		static const char digits[] = "0123456789abcdef";
		const char *digit = *p == '\0' ? NULL : strchr(digits, *p | 0x20);

		if (digit == NULL ||
		    (*p >= 0x10 && *p < 0x20)) /* | 0x20 makes digits of these, too */
			return NULL;
		*ret = *ret * 16 + (unsigned)(digit - digits);
	}
	return p;
}

/* p is behind the backslash. */
static inline const char *json_check_escape(const char *p, const char *end)
{
	unsigned unit, low;

	if (p == end)
		return NULL;
	if (*p != 'u')
		return *p != '\0' && strchr("\"\\/bfnrt", *p) != NULL ? p + 1 : NULL;
	p = json_check_hex4(p + 1, end, &unit);
	if (p == NULL || unit < 0xd800 || unit > 0xdfff)
		return p;
	if (unit > 0xdbff || end - p < 2 || p[0] != '\\' || p[1] != 'u')
		return NULL;
	p = json_check_hex4(p + 2, end, &low);
	return p != NULL && low >= 0xdc00 && low <= 0xdfff ? p : NULL;
}

/* Decodes, then asks whether the number needed that many bytes and is a character. */
static inline const char *json_check_utf8(const char *p, const char *end)
{
	unsigned lead = (unsigned char)*p;
	int n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
	unsigned long code = lead & (0xffU >> (n + 1));

	if (lead < 0xc0 || lead > 0xf7 || end - p < n)
		return NULL;
	for (int i = 1; i < n; i++) {
		if (((unsigned char)p[i] & 0xc0) != 0x80)
			return NULL;
		code = code << 6 | ((unsigned char)p[i] & 0x3fU);
	}
	if (code < (n == 2   ? 0x80UL
		    : n == 3 ? 0x800UL
			     : 0x10000UL) ||
	    code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return NULL;
	return p + n;
}

static inline const char *json_check_string(const char *p, const char *end)
{
	if (p == end || *p != '"')
		return NULL;
	p++;
	while (p != NULL && p < end && *p != '"') {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20)
			return NULL;
		if (c == '\\')
			p = json_check_escape(p + 1, end);
		else
			p = c < 0x80 ? p + 1 : json_check_utf8(p, end);
	}
	return p == NULL || p == end ? NULL : p + 1;
}

static inline const char *json_check_digits(const char *p, const char *end)
{
	const char *begin = p;

	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p == begin ? NULL : p;
}

static inline const char *json_check_number(const char *p, const char *end)
{
	if (p < end && *p == '-')
		p++;
	if (p < end && *p == '0')
		p++;
	else
		p = json_check_digits(p, end);
	if (p != NULL && p < end && *p == '.')
		p = json_check_digits(p + 1, end);
	if (p != NULL && p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		p = json_check_digits(p, end);
	}
	return p;
}

static inline const char *json_check_value(const char *p, const char *end, unsigned depth);

/* An object or array; p is at its bracket. */
static inline const char *json_check_members(const char *p, const char *end, unsigned depth)
{
	bool object = *p == '{';
	char close = object ? '}' : ']';

	if (depth == 0)
		return NULL;
	p = json_check_space(p + 1, end);
	if (p < end && *p == close)
		return p + 1;
	for (;;) {
		if (object) {
			p = json_check_string(json_check_space(p, end), end);
			if (p == NULL)
				return NULL;
			p = json_check_space(p, end);
			if (p == end || *p != ':')
				return NULL;
			p++;
		}
		p = json_check_value(json_check_space(p, end), end, depth - 1);
		if (p == NULL)
			return NULL;
		p = json_check_space(p, end);
		if (p == end || (*p != ',' && *p != close))
			return NULL;
		if (*p++ == close)
			return p;
	}
}

static inline const char *json_check_value(const char *p, const char *end, unsigned depth)
{
	static const char *const words[] = { "true", "false", "null" };

	if (p == end)
		return NULL;
	if (*p == '{' || *p == '[')
		return json_check_members(p, end, depth);
	if (*p == '"')
		return json_check_string(p, end);
	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0)
			return p + n;
	}
	return json_check_number(p, end);
}

/* One value and nothing but space around it. */
static inline bool json_check_valid(const char *text, size_t len)
{
	const char *end = text + len, *p = json_check_space(text, end);

	p = json_check_value(p, end, JSON_CHECK_DEPTH);
	return p != NULL && json_check_space(p, end) == end;
}

/* Copies the value of a member of the object in text, as it is written there: get(t,
 * "restrictions.ids"). False if there is none, if there are two of that name, or if it does not
 * fit. */
static inline bool json_check_get(const char *text, size_t len, const char *path, char *ret,
				  size_t cap)
{
	const char *end = text + len, *p = json_check_space(text, end), *found = NULL,
		   *found_end = NULL;
	size_t n = strcspn(path, ".");

	if (!json_check_valid(text, len) || *p != '{')
		return false;
	p = json_check_space(p + 1, end);
	while (*p == '"') {
		const char *name = p + 1, *after = json_check_string(p, end);
		const char *value = json_check_space(json_check_space(after, end) + 1, end);

		p = json_check_value(value, end, JSON_CHECK_DEPTH);
		if ((size_t)(after - 1 - name) == n && memcmp(name, path, n) == 0) {
			if (found != NULL)
				return false;
			found = value;
			found_end = p;
		}
		p = json_check_space(p, end);
		if (*p == ',')
			p = json_check_space(p + 1, end);
	}
	if (found == NULL)
		return false;
	if (path[n] == '.')
		return json_check_get(found, (size_t)(found_end - found), path + n + 1, ret, cap);
	if ((size_t)(found_end - found) >= cap)
		return false;
	memcpy(ret, found, (size_t)(found_end - found));
	ret[found_end - found] = '\0';
	return true;
}

#endif
