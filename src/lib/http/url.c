#include "lib/http/url.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#define MALFORMED (-1)
#define NOTHING (-2)

/* Take one byte off the front, decoded. NOTHING at the end. */
static int url_next_byte(struct http1_span *s, bool plus)
{
	int high, low;
	char c;

	if (s->n == 0)
		return NOTHING;
	c = s->p[0];
	s->p++;
	s->n--;
	if (c == '+' && plus)
		return ' ';
	if (c != '%')
		return c == '\0' ? MALFORMED : (unsigned char)c;
	if (s->n < 2)
		return MALFORMED;
	high = http1_hex(s->p[0]);
	low = http1_hex(s->p[1]);
	s->p += 2;
	s->n -= 2;
	if (high < 0 || low < 0 || high + low == 0)
		return MALFORMED;
	return high * 16 + low;
}

/* ret has room for cap bytes with the NUL. plus: '+' is a space. */
static int url_decode_any(struct http1_span raw, bool plus, char *ret, size_t cap)
{
	size_t n = 0;
	int c;

	while ((c = url_next_byte(&raw, plus)) >= 0) {
		if (n + 1 >= cap || n == INT_MAX)
			return -1;
		ret[n++] = (char)c;
	}
	if (c == MALFORMED || n >= cap)
		return -1;
	ret[n] = '\0';
	return (int)n;
}

int url_decode(struct http1_span raw, char *ret, size_t cap)
{
	return url_decode_any(raw, false, ret, cap);
}

int url_decode_form(struct http1_span raw, char *ret, size_t cap)
{
	return url_decode_any(raw, true, ret, cap);
}

static bool url_is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

int url_encode(const char *text, size_t n, char *ret, size_t cap)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		bool plain = url_is_plain(text[i]);

		if (out + (plain ? 1 : 3) >= cap || out > INT_MAX - 3)
			return -1;
		if (plain) {
			ret[out++] = text[i];
			continue;
		}
		ret[out++] = '%';
		ret[out++] = digits[c >> 4];
		ret[out++] = digits[c & 15];
	}
	if (out >= cap)
		return -1;
	ret[out] = '\0';
	return (int)out;
}

/* Split at the first separator. *ret_tail has p NULL if there is none. */
static struct http1_span url_split(struct http1_span s, char separator, struct http1_span *ret_tail)
{
	const char *at = s.n > 0 ? memchr(s.p, separator, s.n) : NULL;

	*ret_tail = (struct http1_span){ NULL, 0 };
	if (at == NULL)
		return s;
	*ret_tail = (struct http1_span){ at + 1, s.n - (size_t)(at - s.p) - 1 };
	s.n = (size_t)(at - s.p);
	return s;
}

bool url_query_next(struct http1_span *rest, struct http1_span *ret_name,
		    struct http1_span *ret_value)
{
	while (rest->n > 0) {
		struct http1_span item = url_split(*rest, '&', rest);

		if (item.n > 0) {
			*ret_name = url_split(item, '=', ret_value);
			return true;
		}
	}
	return false;
}

/* 1: the encoded name is this one. 0: not. -1: malformed, known only at its end. */
static int url_name_is(struct http1_span raw, const char *name)
{
	bool same = true;
	int c;

	while ((c = url_next_byte(&raw, true)) >= 0) {
		same = same && *name != '\0' && c == (unsigned char)*name;
		name += same;
	}
	if (c == MALFORMED)
		return -1;
	return same && *name == '\0';
}

/* The whole query is read, also behind the name, since a second value would be an error. */
int url_query_get(struct http1_span query, const char *name, char *ret, size_t cap)
{
	struct http1_span item, value, found = { NULL, 0 };
	int count = 0;

	while (url_query_next(&query, &item, &value)) {
		int is = url_name_is(item, name);

		if (is < 0 || count + is > 1)
			return -1;
		if (is > 0)
			found = value;
		count += is;
	}
	return url_decode_form(found, ret, cap) < 0 ? -1 : count;
}

/* Also the empty segment, which url_match() refuses before. */
static bool url_is_dots(struct http1_span segment)
{
	size_t dots = 0;
	int c;

	while ((c = url_next_byte(&segment, false)) == '.')
		dots++;
	return c == NOTHING && dots <= 2;
}

/* The raw segment becomes the next parameter. */
static bool url_take(struct url_params *params, struct http1_span value)
{
	assert(params->n < URL_PARAMS_MAX);
	params->raw[params->n++] = value;
	return true;
}

/* The first segment. s begins with '/', not a part of it. */
static struct http1_span url_take_segment(struct http1_span *s)
{
	struct http1_span segment = { s->p + 1, 0 };

	while (segment.n < s->n - 1 && segment.p[segment.n] != '/')
		segment.n++;
	s->p += segment.n + 1;
	s->n -= segment.n + 1;
	return segment;
}

/* Segments are compared raw, so an encoded letter differs from a plain one and matches no fixed
 * part. */
bool url_match(const char *pattern, struct http1_span path, struct url_params *ret)
{
	struct http1_span want = { pattern, strlen(pattern) };

	ret->n = 0;
	while (want.n > 0 && path.n > 0 && path.p[0] == '/') {
		struct http1_span expected, segment;

		assert(want.p[0] == '/');
		expected = url_take_segment(&want);
		if (http1_span_is(expected, "{*}") && want.n == 0)
			return url_take(ret, (struct http1_span){ path.p + 1, path.n - 1 });
		segment = url_take_segment(&path);
		if (expected.n > 0 && expected.p[0] == '{') {
			if (segment.n == 0 || url_is_dots(segment))
				return false;
			(void)url_take(ret, segment);
		} else if (segment.n != expected.n ||
			   memcmp(segment.p, expected.p, segment.n) != 0) {
			return false;
		}
	}
	return want.n == 0 && path.n == 0;
}
