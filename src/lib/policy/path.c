/* path.c - theory of operation
 *
 * A path is read in three steps. First, each byte gets the spelling that it has in a normal path,
 * escaped or not, and a forbidden byte makes the path invalid. Second, "." and ".." are resolved as
 * in RFC 3986. The path is refused where servers that merge slashes would get another result (".."
 * after an empty segment). Third, the result is searched for dots that a server could still find:
 * after an escaped slash, after an escaped escape, or before a ';'.
 *
 * ';' and '+' keep their spelling, because servers give the unescaped characters a meaning. */
#include "lib/policy/path.h"

#include <limits.h>
#include <string.h>

#include "lib/policy/glob.h"

/* Output that counts bytes beyond its capacity, so that one check at the end is enough. */
struct path_out {
	char *p;
	size_t n, cap;
};

static void path_put(struct path_out *o, char c)
{
	if (o->n < o->cap)
		o->p[o->n] = c;
	o->n++;
}

static void put_escaped(struct path_out *o, unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";

	path_put(o, '%');
	path_put(o, digits[c >> 4]);
	path_put(o, digits[c & 15]);
}

static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-._~", c) != NULL);
}

/* Does the byte need no escape in a path, and mean the same with one? */
static bool is_plain(unsigned char c)
{
	return is_unreserved(c) || (c != '\0' && strchr("!$&'()*,:=@", c) != NULL);
}

/* Clients differ in whether they escape these, and servers treat both alike. */
static bool needs_escape(unsigned char c)
{
	return c != '\0' && strchr("\"<>^`{|}", c) != NULL;
}

/* Read the escape at *at, and move *at behind it. Return the byte, or -1. */
static int read_escape(struct http1_span raw, size_t *at)
{
	int high, low;

	if (raw.n - *at < 3)
		return -1;
	high = http1_hex(raw.p[*at + 1]);
	low = http1_hex(raw.p[*at + 2]);
	if (high < 0 || low < 0)
		return -1;
	*at += 3;
	return high * 16 + low;
}

/* Overlong UTF-8 can hide a dot or a slash. */
static bool is_overlong(unsigned char before, unsigned char c)
{
	if (c == 0xc0 || c == 0xc1)
		return true;
	return (before == 0xe0 && c >= 0x80 && c < 0xa0) ||
	       (before == 0xf0 && c >= 0x80 && c < 0x90);
}

/* The reason against an unescaped byte, or NULL. */
static const char *bad_raw(unsigned char c)
{
	if (c == '\\')
		return "a backslash in the path";
	if (c <= ' ' || c >= 0x7f || c == '#' || c == '?')
		return "a byte in the path that must be escaped";
	return NULL;
}

/* The reason against an escaped byte, or NULL. */
static const char *bad_escaped(unsigned char before, unsigned char c)
{
	if (c < ' ' || c == 0x7f)
		return "an escaped control byte in the path";
	if (c == '\\')
		return "an escaped backslash in the path";
	return is_overlong(before, c) ? "an overlong character in the path" : NULL;
}

/* Write each byte in its normal spelling. Return the reason of a refusal, or NULL. */
static const char *normal_escapes(struct http1_span raw, struct path_out *o)
{
	unsigned char before = 0;
	const char *bad = NULL;

	for (size_t i = 0; i < raw.n && bad == NULL;) {
		bool escaped = raw.p[i] == '%';
		int c = escaped ? read_escape(raw, &i) : (unsigned char)raw.p[i++];
		unsigned char b = (unsigned char)c;

		if (c < 0)
			return "a malformed escape in the path";
		bad = escaped ? bad_escaped(before, b) : bad_raw(b);
		if (escaped ? is_plain(b) : !needs_escape(b))
			path_put(o, (char)b);
		else
			put_escaped(o, b);
		before = escaped ? b : 0;
	}
	return bad;
}

static bool segment_is(const char *p, size_t n, const char *text)
{
	return n == strlen(text) && memcmp(p, text, n) == 0;
}

/* Remove the last segment of "/a/b" with its slash. Refused where servers differ: a server that
 * merges slashes or decodes escapes first would remove another segment. */
static const char *drop_segment(const char *p, size_t *n)
{
	size_t end = *n;

	if (end == 0)
		return "'..' above the root of the path";
	while (p[*n - 1] != '/')
		(*n)--;
	(*n)--;
	if (end - *n == 1)
		return "'..' after an empty segment of the path";
	for (size_t i = *n; i + 2 < end; i++)
		if (memcmp(p + i, "%2F", 3) == 0 || memcmp(p + i, "%25", 3) == 0)
			return "'..' after an escaped slash in the path";
	return NULL;
}

/* Resolve "." and ".." in place. The output never overtakes the input. */
static const char *resolve_dots(char *p, size_t *len)
{
	size_t out = 0;

	for (size_t i = 0; i < *len;) {
		const char *slash = memchr(p + i + 1, '/', *len - i - 1);
		size_t end = slash == NULL ? *len : (size_t)(slash - p), n = end - i - 1;
		bool up = segment_is(p + i + 1, n, "..");

		if (up) {
			const char *bad = drop_segment(p, &out);

			if (bad != NULL)
				return bad;
		}
		if (!up && !segment_is(p + i + 1, n, ".")) {
			memmove(p + out, p + i, n + 1);
			out += n + 1;
		} else if (end == *len) {
			p[out++] = '/'; /* "/a/.." ends with a slash */
		}
		i = end;
	}
	*len = out;
	return NULL;
}

/* Read the byte at *at with escapes decoded twice, as careless servers do. */
static int decode_twice(struct http1_span s, size_t *at)
{
	int c = (unsigned char)s.p[*at];

	if (c != '%')
		return (unsigned char)s.p[(*at)++];
	c = read_escape(s, at);
	if (c == '%' && s.n - *at >= 2) {
		int high = http1_hex(s.p[*at]), low = http1_hex(s.p[*at + 1]);

		if (high >= 0 && low >= 0) {
			*at += 2;
			return high * 16 + low;
		}
	}
	return c;
}

/* Does the path hide dots, as "/a%2F..%2Fb", "/%252E%252E/" and "/..;x/" do? */
static bool hides_dots(struct http1_span s)
{
	size_t dots = 0, others = 0;

	for (size_t i = 0; i < s.n;) {
		int c = decode_twice(s, &i);

		if (c == '/' || c == '\\' || c == ';') {
			if (others == 0 && (dots == 1 || dots == 2))
				return true;
			dots = others = 0;
			if (c == ';') /* "/a;..": no segment of dots */
				others = 1;
		} else if (c == '.') {
			dots++;
		} else {
			others++;
		}
	}
	return others == 0 && (dots == 1 || dots == 2);
}

static int path_refuse(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -1;
}

int path_normal(struct http1_span raw, char *ret, size_t cap, const char **ret_why)
{
	struct path_out o = { .p = ret, .cap = cap };
	const char *bad;

	if (raw.n == 0 || raw.p[0] != '/')
		return path_refuse(ret_why, "a path that does not begin with a slash");
	bad = normal_escapes(raw, &o);
	if (bad != NULL)
		return path_refuse(ret_why, bad);
	if (o.n >= cap || o.n > INT_MAX)
		return path_refuse(ret_why, "a path that is too long");
	bad = resolve_dots(ret, &o.n);
	if (bad != NULL)
		return path_refuse(ret_why, bad);
	ret[o.n] = '\0';
	if (hides_dots((struct http1_span){ ret, o.n }))
		return path_refuse(ret_why, "'.' or '..' hidden in the path");
	return (int)o.n;
}

int path_normal_query(struct http1_span raw, char *ret, size_t cap, const char **ret_why)
{
	struct path_out o = { .p = ret, .cap = cap };

	for (size_t i = 0; i < raw.n;) {
		bool escaped = raw.p[i] == '%';
		int c = escaped ? read_escape(raw, &i) : (unsigned char)raw.p[i++];
		unsigned char b = (unsigned char)c;

		if (c < 0)
			return path_refuse(ret_why, "a malformed escape in the query");
		if (escaped ? b == '\0' : b <= ' ' || b >= 0x7f || b == '#')
			return path_refuse(ret_why, "a byte in the query that is not allowed");
		if (escaped ? is_unreserved(b) : !needs_escape(b) && b != '\\')
			path_put(&o, (char)b);
		else
			put_escaped(&o, b);
	}
	if (o.n >= cap || o.n > INT_MAX)
		return path_refuse(ret_why, "a query that is too long");
	ret[o.n] = '\0';
	return (int)o.n;
}

bool path_fits(const char *pattern, const char *path)
{
	return glob_fits(pattern, path, strlen(path), true);
}

/* Stars stand for bytes that need no escape, and are not a part of the path. */
int path_pattern_check(const char *pattern, struct err *e)
{
	char normal[PATH_PATTERN_MAX * 3];
	const char *why = NULL;
	size_t n = strlen(pattern);

	if (n > PATH_PATTERN_MAX)
		return err_set(e, ERR_INVALID, "a pattern has at most %d bytes", PATH_PATTERN_MAX);
	if (path_normal((struct http1_span){ pattern, n }, normal, sizeof(normal), &why) < 0)
		return err_set(e, ERR_INVALID, "'%.80s' is not a path: %s", pattern, why);
	if (strcmp(normal, pattern) != 0)
		return err_set(e, ERR_INVALID, "'%.80s' must be written '%.80s'", pattern, normal);
	return 0;
}
