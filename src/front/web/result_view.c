/* result_view.c - see result_view.h. Lines are checked and then written as they stand. */
#include "front/web/result_view.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"

/* ---- lines of results
 *
 * One loop reads a token in each step: a bracket, a comma, a colon, a number, a word, or a run of
 * a text. `state` tells the kind of token that may come next, `arrays` the open brackets, a bit for
 * each. So the check can stop behind any token and in any text, and needs no recursion. */

enum result_view_state {
	WANT_VALUE,
	WANT_FIRST, /* behind an opening bracket */
	WANT_NAME,
	WANT_COLON,
	IN_TEXT,
	WANT_NEXT, /* behind a value */
	WANT_END
};

enum result_view_member { MEMBER_OTHER, MEMBER_TYPE, MEMBER_COUNT };

_Static_assert(RESULT_LINE_DEPTH <= 64, "bits of arrays");

void result_line_begin(struct result_line *l, const char *line, size_t n)
{
	*l = (struct result_line){ .p = line, .end = line + n };
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool result_line_equals(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(p, word, n) == 0;
}

/* ---- members of the line's own object */

static void take_name(struct result_line *l, size_t n)
{
	l->member = MEMBER_OTHER;
	if (l->depth != 1)
		return;
	if (result_line_equals(l->from, n, "type"))
		l->member = MEMBER_TYPE;
	else if (result_line_equals(l->from, n, "execution_count"))
		l->member = MEMBER_COUNT;
	if ((l->seen & 1U << l->member) != 0)
		l->member = MEMBER_OTHER;
	l->seen |= 1U << l->member;
}

static void take_text(struct result_line *l, size_t n)
{
	if (l->depth != 1 || l->member != MEMBER_TYPE)
		return;
	if (result_line_equals(l->from, n, "result"))
		l->type = RESULT_LINE_RESULT;
	else if (result_line_equals(l->from, n, "error"))
		l->type = RESULT_LINE_ERROR;
	else if (result_line_equals(l->from, n, "number_of_executions"))
		l->type = RESULT_LINE_COUNT;
}

static void take_number(struct result_line *l, const char *p, size_t n)
{
	uint64_t sum = 0;

	if (l->depth != 1 || l->member != MEMBER_COUNT)
		return;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(p[i]) || sum > (UINT64_MAX - 9) / 10)
			return;
		sum = sum * 10 + (unsigned)(p[i] - '0');
	}
	l->has_count = true;
	l->count = sum;
}

/* ---- texts */

static int result_line_hex(char c)
{
	if (is_digit(c))
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of \uXXXX at p. -1: it is none. */
static int unicode_escape(const char *p, const char *end)
{
	int value = 0;

	if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
		return -1;
	for (int i = 2; i < 6; i++) {
		int digit = result_line_hex(p[i]);

		if (digit < 0)
			return -1;
		value = value * 16 + digit;
	}
	return value;
}

/* At a backslash: how long the escape is, both halves of a character together. 0: it is none. */
static size_t escape_length(const char *p, const char *end)
{
	int high, low;

	if (end - p < 2)
		return 0;
	if (p[1] != 'u')
		return p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL ? 2 : 0;
	high = unicode_escape(p, end);
	if (high < 0xd800 || high > 0xdfff)
		return high < 0 ? 0 : 6;
	low = high > 0xdbff ? -1 : unicode_escape(p + 6, end);
	return low >= 0xdc00 && low <= 0xdfff ? 12 : 0;
}

static bool end_text(struct result_line *l)
{
	size_t n = (size_t)(l->p - l->from);

	if (l->is_name)
		take_name(l, n);
	else
		take_text(l, n);
	l->state = l->is_name ? WANT_COLON : WANT_NEXT;
	l->p++;
	return true;
}

/* A run of a text, up to its end or to `stop`. */
static bool read_text(struct result_line *l, const char *stop)
{
	while (l->p < l->end && l->p < stop) {
		unsigned char c = (unsigned char)*l->p;
		size_t n = 1;

		if (c == '"')
			return end_text(l);
		if (c < 0x20)
			return false;
		if (c == '\\')
			n = escape_length(l->p, l->end);
		else if (c >= 0x80)
			n = utf8_length((const uint8_t *)l->p, (size_t)(l->end - l->p));
		if (n == 0)
			return false;
		l->p += n;
	}
	return l->p < l->end; /* a text has a quote at its end */
}

static bool begin_text(struct result_line *l, bool is_name)
{
	l->is_name = is_name;
	l->from = ++l->p;
	l->state = IN_TEXT;
	return true;
}

/* ---- numbers and words */

static size_t result_line_digits(const char *p, const char *end)
{
	const char *from = p;

	while (p < end && is_digit(*p))
		p++;
	return (size_t)(p - from);
}

/* Most numbers are short enough. Others are read. */
static bool fits_double(const char *p, size_t n, size_t whole, const char *exponent)
{
	char copy[RESULT_LINE_NUMBER_MAX + 1];
	long power = 0;

	if (exponent != NULL && result_line_digits(exponent, p + n) > 3)
		power = 1000;
	for (const char *c = exponent; c != NULL && power < 1000 && c < p + n; c++)
		power = power * 10 + (*c - '0');
	if ((long)whole + power <= 308)
		return true;
	memcpy(copy, p, n);
	copy[n] = '\0';
	return isfinite(strtod(copy, NULL));
}

static bool read_number(struct result_line *l)
{
	const char *from = l->p, *p = from, *exponent = NULL;
	const char *end =
		l->end - from > RESULT_LINE_NUMBER_MAX ? from + RESULT_LINE_NUMBER_MAX : l->end;
	size_t whole, n;

	p += p < end && *p == '-';
	whole = result_line_digits(p, end);
	if (whole == 0 || (whole > 1 && *p == '0'))
		return false;
	p += whole;
	if (p < end && *p == '.') {
		n = result_line_digits(++p, end);
		if (n == 0)
			return false;
		p += n;
	}
	if (p < end && (*p | 0x20) == 'e') {
		p++;
		p += p < end && (*p == '+' || *p == '-');
		exponent = p;
		n = result_line_digits(p, end);
		if (n == 0)
			return false;
		p += n;
	}
	l->p = p;
	n = (size_t)(p - from);
	take_number(l, from, n);
	l->state = WANT_NEXT;
	return fits_double(from, n, whole, exponent);
}

static bool read_word(struct result_line *l, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n) != 0)
		return false;
	l->p += n;
	l->state = WANT_NEXT;
	return true;
}

/* ---- values */

static bool open_bracket(struct result_line *l, bool is_array)
{
	if (l->depth == RESULT_LINE_DEPTH)
		return false;
	l->depth++;
	l->arrays = l->arrays << 1 | is_array;
	l->state = WANT_FIRST;
	l->p++;
	return true;
}

static bool close_bracket(struct result_line *l)
{
	if (*l->p != ((l->arrays & 1) != 0 ? ']' : '}'))
		return false;
	l->depth--;
	l->arrays >>= 1;
	l->state = l->depth == 0 ? WANT_END : WANT_NEXT;
	l->p++;
	return true;
}

static bool read_value(struct result_line *l)
{
	if (l->depth == 0 && *l->p != '{')
		return false;
	switch (*l->p) {
	case '{':
		return open_bracket(l, false);
	case '[':
		return open_bracket(l, true);
	case '"':
		return begin_text(l, false);
	case 't':
		return read_word(l, "true");
	case 'f':
		return read_word(l, "false");
	case 'n':
		return read_word(l, "null");
	default:
		return read_number(l);
	}
}

/* The first or next in a bracket. */
static bool read_item(struct result_line *l)
{
	if ((l->arrays & 1) != 0)
		return read_value(l);
	return *l->p == '"' && begin_text(l, true);
}

/* Behind a value: a comma, or the end of its object or array. */
static bool read_next(struct result_line *l)
{
	if (*l->p != ',')
		return close_bracket(l);
	l->p++;
	l->state = (l->arrays & 1) != 0 ? WANT_VALUE : WANT_NAME;
	return true;
}

static bool read_token(struct result_line *l)
{
	switch ((enum result_view_state)l->state) {
	case WANT_VALUE:
		return read_value(l);
	case WANT_FIRST:
		return *l->p == '}' || *l->p == ']' ? close_bracket(l) : read_item(l);
	case WANT_NAME:
		return read_item(l);
	case WANT_COLON:
		l->state = WANT_VALUE;
		return *l->p++ == ':';
	case WANT_NEXT:
		return read_next(l);
	case IN_TEXT:
	case WANT_END:
		break;
	}
	return false;
}

int result_line_piece(struct result_line *l, size_t max)
{
	const char *stop = l->p + ((size_t)(l->end - l->p) < max ? (size_t)(l->end - l->p) : max);

	do {
		if (l->state != IN_TEXT && l->p < l->end && is_space(*l->p))
			l->p++;
		else if (l->p == l->end)
			return l->state == WANT_END ? 0 : -1;
		else if (!(l->state == IN_TEXT ? read_text(l, stop) : read_token(l)))
			return -1;
	} while (l->p < stop || l->p == l->end);
	return 1;
}

/* ---- the view of results */

#define LINE_COST 32 /* of a line, in bytes, beside its own */

void result_view_init(struct result_view *v)
{
	*v = (struct result_view){ 0 };
	buf_init(&v->lines, RESULT_VIEW_MAX);
}

void result_view_release(struct result_view *v)
{
	buf_release(&v->lines);
}

void result_view_take(struct result_view *v, const uint8_t *bytes, size_t n)
{
	size_t room = RESULT_VIEW_MAX - v->lines.len;

	v->over = v->over || n > room;
	buf_put(&v->lines, bytes, n < room ? n : room);
}

/* The line has passed. */
static void take_line(struct result_view *v, struct json *j, const char *line, size_t n)
{
	if (v->line.type == RESULT_LINE_RESULT && v->n < RESULT_VIEW_LINES) {
		json_raw_bytes(j, NULL, line, n);
		v->n++;
	} else if (v->line.type == RESULT_LINE_ERROR && v->error_len == 0) {
		v->error = v->at;
		v->error_len = n;
	} else if (v->line.type == RESULT_LINE_COUNT && v->line.has_count) {
		v->count = v->line.count;
	} else {
		v->dropped++;
	}
}

static void result_view_end(struct result_view *v, struct json *j)
{
	json_close(j, ']');
	json_uint(j, "results_dropped", v->dropped + (v->over ? 1 : 0));
	if (v->error_len > 0)
		json_raw_bytes(j, "code_error", buf_text(&v->lines) + v->error, v->error_len);
	else
		json_none(j, "code_error");
	if (v->count > 0)
		json_uint(j, "execution_count", v->count);
	else
		json_none(j, "execution_count");
}

/* The line at v->at. False: it is the last, and cut, or the program ended inside of it. */
static bool begin_line(struct result_view *v)
{
	const char *line = buf_text(&v->lines) + v->at;
	const char *newline = memchr(line, '\n', v->lines.len - v->at);

	if (newline == NULL) {
		v->dropped += !v->over;
		v->at = v->lines.len;
		return false;
	}
	v->line_len = (size_t)(newline - line);
	v->in_line = true;
	result_line_begin(&v->line, line, v->line_len);
	return true;
}

/* Read up to about *left bytes of the line at v->at, and subtract their cost. */
static void do_line(struct result_view *v, struct json *j, size_t *left)
{
	const char *before = v->line.p;
	int got = v->line_len == 0 ? 0 : result_line_piece(&v->line, *left);
	size_t cost = LINE_COST + (size_t)(v->line.p - before);

	*left -= cost < *left ? cost : *left;
	if (got > 0)
		return;
	if (got < 0)
		v->dropped++;
	else if (v->line_len > 0)
		take_line(v, j, buf_text(&v->lines) + v->at, v->line_len);
	v->at += v->line_len + 1;
	v->in_line = false;
}

int result_view_piece(struct result_view *v, struct json *j)
{
	size_t left = RESULT_VIEW_PIECE;

	if (!v->begun)
		json_open(j, "results", '[');
	v->begun = true;
	while (v->at < v->lines.len && left > 0)
		if (v->in_line || begin_line(v))
			do_line(v, j, &left);
	if (v->at < v->lines.len)
		return 1;
	result_view_end(v, j);
	buf_release(&v->lines);
	return 0;
}
