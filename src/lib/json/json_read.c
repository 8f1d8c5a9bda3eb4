#include "lib/json/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"

/* The text left to read. depth: brackets that may still open. It bounds the recursion of the check,
 * and walks do not use it.
 *
 * Functions json_read_check_*() accept one part of the grammar at p and leave p behind it. False: p
 * is where the fault is, for the message. */
struct json_reader {
	const char *p, *end;
	unsigned depth;
};

static void json_read_skip_space(struct json_reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

static bool json_read_take(struct json_reader *r, char c)
{
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static bool json_read_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int json_read_hex_value(char c)
{
	if (json_read_is_digit(c))
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind a backslash. */
static bool json_read_check_escape(struct json_reader *r)
{
	if (r->p == r->end)
		return false;
	if (*r->p != 'u') {
		r->p++;
		return r->p[-1] != '\0' && strchr("\"\\/bfnrt", r->p[-1]) != NULL;
	}
	if (r->end - r->p < 5)
		return false;
	for (int i = 1; i <= 4; i++)
		if (json_read_hex_value(r->p[i]) < 0)
			return false;
	r->p += 5;
	return true;
}

/* UTF-8 is checked here, so no walk and no decoder needs to. Surrogates may be alone:
 * json_read_text() replaces them. */
static bool json_read_check_text(struct json_reader *r)
{
	if (!json_read_take(r, '"'))
		return false;
	while (r->p < r->end) {
		unsigned char c = (unsigned char)*r->p;
		size_t n;

		if (c < 0x20)
			return false;
		if (c == '"' || c == '\\') {
			r->p++;
			if (c == '"')
				return true;
			if (!json_read_check_escape(r))
				return false;
			continue;
		}
		n = c < 0x80 ? 1 : utf8_length((const uint8_t *)r->p, (size_t)(r->end - r->p));
		if (n == 0)
			return false;
		r->p += n;
	}
	return false;
}

static bool json_read_check_digits(struct json_reader *r)
{
	const char *from = r->p;

	while (r->p < r->end && json_read_is_digit(*r->p))
		r->p++;
	return r->p > from;
}

/* A number may not begin with a superfluous 0. The digit behind such a 0 is no separator, so the
 * caller refuses it. */
static bool json_read_check_number(struct json_reader *r)
{
	(void)json_read_take(r, '-');
	if (!json_read_take(r, '0') && !json_read_check_digits(r))
		return false;
	if (json_read_take(r, '.') && !json_read_check_digits(r))
		return false;
	if (json_read_take(r, 'e') || json_read_take(r, 'E')) {
		if (!json_read_take(r, '+'))
			(void)json_read_take(r, '-');
		return json_read_check_digits(r);
	}
	return true;
}

static bool json_read_check_word(struct json_reader *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
		return false;
	r->p += n;
	return true;
}

static bool json_read_check_scalar(struct json_reader *r)
{
	switch (*r->p) {
	case '"':
		return json_read_check_text(r);
	case 't':
		return json_read_check_word(r, "true");
	case 'f':
		return json_read_check_word(r, "false");
	case 'n':
		return json_read_check_word(r, "null");
	default:
		return json_read_check_number(r);
	}
}

static bool json_read_check_value(struct json_reader *r);

/* Behind the bracket of an object or array. */
static bool json_read_check_members(struct json_reader *r, char close)
{
	json_read_skip_space(r);
	if (json_read_take(r, close))
		return true;
	do {
		json_read_skip_space(r);
		if (close == '}') {
			if (!json_read_check_text(r))
				return false;
			json_read_skip_space(r);
			if (!json_read_take(r, ':'))
				return false;
		}
		if (!json_read_check_value(r))
			return false;
		json_read_skip_space(r);
	} while (json_read_take(r, ','));
	return json_read_take(r, close);
}

/* An object or array takes one level of depth and gives it back, so siblings do not add up. */
static bool json_read_check_value(struct json_reader *r)
{
	bool ok;

	json_read_skip_space(r);
	if (r->p == r->end)
		return false;
	if (*r->p != '{' && *r->p != '[')
		return json_read_check_scalar(r);
	if (r->depth == 0)
		return false;
	r->depth--;
	ok = json_read_check_members(r, *r->p++ == '{' ? '}' : ']');
	r->depth++;
	return ok;
}

static enum json_kind json_read_kind_of(char c)
{
	switch (c) {
	case '{':
		return JSON_READ_OBJECT;
	case '[':
		return JSON_READ_ARRAY;
	case '"':
		return JSON_READ_TEXT;
	case 't':
		return JSON_READ_TRUE;
	case 'f':
		return JSON_READ_FALSE;
	case 'n':
		return JSON_READ_NULL;
	default:
		return JSON_READ_NUMBER;
	}
}

/* Only a failure counts lines. */
static size_t json_read_line_of(const char *text, const char *at)
{
	size_t n = 1;

	for (; text < at; text++)
		n += *text == '\n';
	return n;
}

int json_read(const char *text, size_t len, unsigned max_depth, struct json_value *ret,
	      struct err *e)
{
	struct json_reader r = { text, text + len, max_depth };
	const char *from;

	*ret = (struct json_value){ 0 };
	json_read_skip_space(&r);
	from = r.p;
	if (!json_read_check_value(&r))
		return err_set(e, ERR_INVALID, "line %zu, byte %zu: not JSON, or nested too deeply",
			       json_read_line_of(text, r.p), (size_t)(r.p - text));
	*ret = (struct json_value){ json_read_kind_of(*from), from, (size_t)(r.p - from) };
	json_read_skip_space(&r);
	if (r.p < r.end)
		return err_set(e, ERR_INVALID, "line %zu, byte %zu: more than one JSON value",
			       json_read_line_of(text, r.p), (size_t)(r.p - text));
	return 0;
}

/* ---- walks over a checked text
 *
 * The text was checked as a whole, so none of these looks at its form again: each only finds the
 * end of a value. A walk holds no state but a place in the text, so a caller may leave it at any
 * time. */

/* Behind the closing quote of the text at p: the first with an even number of backslashes before
 * it. A backslash before the quote escapes it unless another one escapes the backslash. The text is
 * checked, so memchr(3) always finds a quote. */
static const char *json_read_text_end(const char *p, const char *end)
{
	const char *from = p + 1, *at = p, *back;

	do {
		at = memchr(at + 1, '"', (size_t)(end - at - 1));
		for (back = at; back > from && back[-1] == '\\'; back--)
			;
	} while ((at - back) % 2 != 0);
	return at + 1;
}

/* Does the byte end a number or a word? */
static bool json_read_ends_word(char c)
{
	return c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || c == ' ' || c == '\t' ||
	       c == '\r' || c == '\n';
}

/* Behind the value at p. Without recursion: brackets in texts are skipped with them. */
static const char *json_read_value_end(const char *p, const char *end)
{
	unsigned depth = 0;

	do {
		if (*p == '"') {
			p = json_read_text_end(p, end);
			continue;
		}
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
		/* The rest of a number or word. */
		while (depth == 0 && p < end && !json_read_ends_word(*p))
			p++;
	} while (depth > 0);
	return p;
}

/* The value at r, which moves behind it. */
static struct json_value json_read_value_at(struct json_reader *r)
{
	struct json_value v;

	json_read_skip_space(r);
	v = (struct json_value){ json_read_kind_of(*r->p), r->p, 0 };
	r->p = v.kind == JSON_READ_TEXT ? json_read_text_end(r->p, r->end)
					: json_read_value_end(r->p, r->end);
	v.n = (size_t)(r->p - v.p);
	return v;
}

/* *at is the byte behind the last value. The end is the closing bracket of v, which the walk never
 * reads. */
bool json_read_next(struct json_value v, const char **at, struct json_value *ret_name,
		    struct json_value *ret)
{
	struct json_reader r;

	if (v.kind != JSON_READ_OBJECT && v.kind != JSON_READ_ARRAY)
		return false;
	r = (struct json_reader){ *at == NULL ? v.p + 1 : *at, v.p + v.n - 1, 0 };
	json_read_skip_space(&r);
	if (*at != NULL)
		(void)json_read_take(&r, ',');
	json_read_skip_space(&r);
	if (r.p >= r.end)
		return false;
	*ret_name = (struct json_value){ 0 };
	if (v.kind == JSON_READ_OBJECT) {
		*ret_name = json_read_value_at(&r);
		json_read_skip_space(&r);
		(void)json_read_take(&r, ':');
	}
	*ret = json_read_value_at(&r);
	*at = r.p;
	return true;
}

/* Commas and colons are skipped without a look at their order, because json_read() has checked it.
 */
bool json_read_step(const char **at, const char *end, struct json_value *ret)
{
	struct json_reader r = { *at, end, 0 };

	json_read_skip_space(&r);
	if (!json_read_take(&r, ','))
		(void)json_read_take(&r, ':');
	json_read_skip_space(&r);
	*at = r.p;
	if (r.p == end)
		return false;
	if (json_read_take(&r, '}') || json_read_take(&r, ']'))
		*ret = (struct json_value){ JSON_READ_NONE, r.p, 0 };
	else if (*r.p == '{' || *r.p == '[')
		*ret = (struct json_value){ json_read_kind_of(*r.p), r.p, 1 };
	else
		*ret = json_read_value_at(&r);
	*at = ret->kind == JSON_READ_NONE ? r.p : ret->p + ret->n;
	return true;
}

bool json_read_is(struct json_value v, const char *text)
{
	size_t n = strlen(text);

	return v.kind == JSON_READ_TEXT && v.n == n + 2 && memcmp(v.p + 1, text, n) == 0;
}

struct json_value json_read_member(struct json_value v, const char *name)
{
	struct json_value key, value;
	const char *at = NULL;

	if (v.kind != JSON_READ_OBJECT)
		return (struct json_value){ 0 };
	while (json_read_next(v, &at, &key, &value))
		if (json_read_is(key, name))
			return value;
	return (struct json_value){ 0 };
}

bool json_read_uint(struct json_value v, uint64_t *ret)
{
	uint64_t sum = 0;

	if (v.kind != JSON_READ_NUMBER)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		unsigned digit = (unsigned)(v.p[i] - '0');

		if (digit > 9 || sum > (UINT64_MAX - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*ret = sum;
	return true;
}

/* ---- decoding
 *
 * From escapes to UTF-8, piece by piece into a buffer. Plain runs are copied as they stand. */

static unsigned json_read_code_at(const char *p)
{
	unsigned code = 0;

	for (int i = 0; i < 4; i++)
		code = code << 4 | (unsigned)json_read_hex_value(p[i]);
	return code;
}

/* At "uXXXX". *ret_used: bytes of it, with a second half. A half without its other half uses its
 * own escape only, so the text behind it is read as it stands. */
static unsigned json_read_read_code(const char *p, const char *end, size_t *ret_used)
{
	unsigned code = json_read_code_at(p + 1), low;

	*ret_used = 5;
	if (code < 0xd800 || code > 0xdfff)
		return code;
	if (code > 0xdbff || end - p < 11 || p[5] != '\\' || p[6] != 'u')
		return 0xfffd;
	low = json_read_code_at(p + 7);
	if (low < 0xdc00 || low > 0xdfff)
		return 0xfffd;
	*ret_used = 11;
	return 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
}

/* UTF-8 of one character. Return its length. */
static size_t json_read_encode(unsigned c, char ret[4])
{
	if (c < 0x80) {
		ret[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		ret[0] = (char)(0xc0 | c >> 6);
		ret[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		ret[0] = (char)(0xe0 | c >> 12);
		ret[1] = (char)(0x80 | (c >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | c >> 18);
	ret[1] = (char)(0x80 | (c >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (c >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* At the byte behind a backslash. Return how many bytes of the text it used. */
static size_t json_read_decode_escape(const char *p, const char *end, char ret[4], size_t *ret_n)
{
	static const char names[] = "bfnrt", bytes[] = "\b\f\n\r\t";
	const char *at = strchr(names, *p);
	size_t used = 1;

	*ret_n = 1;
	if (*p == 'u')
		*ret_n = json_read_encode(json_read_read_code(p, end, &used), ret);
	else
		ret[0] = (char)(at == NULL ? *p : bytes[at - names]);
	return used;
}

int json_read_text(struct json_value v, struct buf *ret, struct err *e)
{
	const char *p = v.p + 1, *end;
	char piece[4];
	size_t n;

	if (v.kind != JSON_READ_TEXT)
		return err_set(e, ERR_INVALID, "a text is expected");
	end = v.p + v.n - 1;
	/* Decoded text is never longer than the quoted one. */
	if (buf_reserve(ret, (size_t)(end - p), e) == NULL && end > p)
		return -1;
	while (p < end) {
		const char *plain = memchr(p, '\\', (size_t)(end - p));

		n = (size_t)((plain == NULL ? end : plain) - p);
		if (n > 0 && buf_add(ret, p, n, e) < 0)
			return -1;
		p += n;
		if (p == end)
			break;
		p += 1 + json_read_decode_escape(p + 1, end, piece, &n);
		if (buf_add(ret, piece, n, e) < 0)
			return -1;
	}
	return 0;
}

/* The copy differs from the document in one object, which is written again member by member. Its
 * room is the document's length and three bytes: "{}" with its NUL for an empty text. */
#define WITHOUT_DEPTH 128

char *json_read_without(const char *document, const char *name, const char *member)
{
	const size_t len = strlen(document);
	struct json_value root, object, key, value;
	const char *walk = NULL;
	char *text = malloc(len + 3), *to = text;
	struct err e;

	if (text == NULL)
		return NULL;
	if (json_read(document, len, WITHOUT_DEPTH, &root, &e) < 0)
		return memcpy(text, "{}", sizeof("{}"));
	object = json_read_member(root, name);
	if (object.kind != JSON_READ_OBJECT)
		return memcpy(text, document, len + 1);
	to = mempcpy(to, document, (size_t)(object.p - document));
	*to++ = '{';
	while (json_read_next(object, &walk, &key, &value)) {
		if (json_read_is(key, member))
			continue;
		if (to[-1] != '{')
			*to++ = ',';
		to = mempcpy(to, key.p, key.n);
		*to++ = ':';
		to = mempcpy(to, value.p, value.n);
	}
	*to++ = '}';
	memcpy(to, object.p + object.n, strlen(object.p + object.n) + 1);
	return text;
}
