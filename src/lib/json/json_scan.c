/* json_scan.c - one state machine, byte by byte. Open objects and arrays are a short stack. Of
 * names the beginning is kept, of values only one word or a piece of text until the callback. */
#include "lib/json/json_scan.h"
#include "lib/json/json_word.h"

#include <string.h>

/* What the next byte must be. Any other byte sets s->bad, and the scan ends there. */
enum json_scan_state {
	VALUE,	      /* a value is required */
	VALUE_OR_END, /* after '[' */
	KEY_OR_END,   /* after '{' */
	KEY,	      /* after ',' in an object */
	COLON,
	AFTER, /* after a value */
	STRING,
	ESCAPE,
	HEX,
	SCALAR,
};

void json_scan_init(struct json_scan *s, const struct json_scan_calls *calls, void *arg)
{
	*s = (struct json_scan){ .calls = calls, .arg = arg };
}

const char *json_scan_key(const struct json_scan *s)
{
	return s->depth == 0 || s->level[s->depth - 1].array ? "" : s->level[s->depth - 1].key;
}

bool json_scan_is(const struct json_scan *s, const char *path)
{
	for (unsigned i = 0; i < s->depth; i++) {
		const char *name = s->level[i].array ? "[]" : s->level[i].key;
		size_t n = strlen(name);

		if (n == 0 || strncmp(path, name, n) != 0)
			return false;
		path += n;
		if (*path == '.' && i + 1 < s->depth)
			path++;
		else if (*path != '\0' || i + 1 < s->depth)
			return false;
	}
	return *path == '\0';
}

/* ---- strings
 *
 * Decoded bytes of a wanted string collect in s->piece and go to on_text() when it is full or the
 * string ends. Bytes of a name collect in the level's key. */

static void scan_flush(struct json_scan *s)
{
	if (s->npiece > 0 && s->calls->on_text != NULL)
		s->calls->on_text(s, s->piece, s->npiece);
	s->npiece = 0;
}

/* A decoded byte of a string. A name that is too long, or has a NUL, leaves nword at JSON_SCAN_KEY,
 * which scan_end_string() turns into "". Bytes of an unwanted value are dropped. */
static void scan_put(struct json_scan *s, unsigned char c)
{
	struct json_scan_level *l = &s->level[s->depth > 0 ? s->depth - 1 : 0];

	if (s->in_key) {
		if (c == '\0')
			s->nword = JSON_SCAN_KEY;
		if (s->nword < JSON_SCAN_KEY)
			s->nword++;
		if (s->nword < JSON_SCAN_KEY)
			l->key[s->nword - 1] = (char)c;
		return;
	}
	if (!s->wanted)
		return;
	s->piece[s->npiece++] = (char)c;
	if (s->npiece == sizeof(s->piece))
		scan_flush(s);
}

/* UTF-8 of one character, byte by byte, since it may fill a piece in its middle. */
static void scan_put_code(struct json_scan *s, unsigned c)
{
	if (c < 0x80) {
		scan_put(s, (unsigned char)c);
		return;
	}
	if (c < 0x800) {
		scan_put(s, (unsigned char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			scan_put(s, (unsigned char)(0xe0 | c >> 12));
		} else {
			scan_put(s, (unsigned char)(0xf0 | c >> 18));
			scan_put(s, (unsigned char)(0x80 | (c >> 12 & 0x3f)));
		}
		scan_put(s, (unsigned char)(0x80 | (c >> 6 & 0x3f)));
	}
	scan_put(s, (unsigned char)(0x80 | (c & 0x3f)));
}

/* Half a surrogate pair becomes U+FFFD, unless the caller wants none. */
static void scan_put_half(struct json_scan *s)
{
	s->bad = s->bad || s->whole_pairs;
	scan_put_code(s, 0xfffd);
}

/* The first half of a pair waits in s->high. Anything but the second half ends the wait. */
static void scan_end_high(struct json_scan *s)
{
	if (s->high != 0)
		scan_put_half(s);
	s->high = 0;
}

/* Four digits are complete. */
static void scan_end_code(struct json_scan *s)
{
	unsigned c = s->code;

	s->state = STRING;
	if (c >= 0xdc00 && c < 0xe000 && s->high != 0) {
		scan_put_code(s, 0x10000 + ((s->high - 0xd800) << 10) + (c - 0xdc00));
		s->high = 0;
		return;
	}
	scan_end_high(s);
	if (c >= 0xd800 && c < 0xdc00)
		s->high = c;
	else if (c >= 0xdc00 && c < 0xe000)
		scan_put_half(s);
	else
		scan_put_code(s, c == 0 && !s->keep_nul ? 0xfffd : c);
}

/* escaped is about the last name. A value's string leaves it alone, because on_string() may ask for
 * it. */
static void scan_begin_string(struct json_scan *s, bool key)
{
	s->state = STRING;
	s->in_key = key;
	s->nword = 0;
	s->high = 0;
	s->escaped = s->escaped && !key;
	s->wanted = !key && s->calls->on_string != NULL && s->calls->on_string(s);
}

static void scan_end_string(struct json_scan *s)
{
	scan_end_high(s);
	if (s->in_key) {
		struct json_scan_level *l = &s->level[s->depth - 1];

		l->key[s->nword < JSON_SCAN_KEY ? s->nword : 0] = '\0';
		s->state = COLON;
		s->bad = s->calls->on_name != NULL && !s->calls->on_name(s);
		return;
	}
	scan_flush(s);
	if (s->calls->on_string_end != NULL)
		s->calls->on_string_end(s);
	s->state = AFTER;
}

/* Bytes above 0x7f pass unchecked: the scanner does not check UTF-8. */
static void scan_in_string(struct json_scan *s, uint8_t c)
{
	if (c == '\\') {
		s->state = ESCAPE;
		s->escaped = s->escaped || s->in_key;
	} else if (c == '"') {
		scan_end_string(s);
	} else if (c < 0x20) {
		s->bad = true;
	} else {
		scan_end_high(s);
		scan_put(s, c);
	}
}

static void scan_in_escape(struct json_scan *s, uint8_t c)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = c == '\0' ? NULL : strchr(from, c);

	if (c == 'u') {
		s->state = HEX;
		s->digits = s->code = 0;
		return;
	}
	if (at == NULL) {
		s->bad = true;
		return;
	}
	scan_end_high(s);
	scan_put(s, (unsigned char)to[at - from]);
	s->state = STRING;
}

static void scan_in_hex(struct json_scan *s, uint8_t c)
{
	unsigned lower = c | 0x20U, digit;

	if (c >= '0' && c <= '9')
		digit = c - '0';
	else if (lower >= 'a' && lower <= 'f')
		digit = lower - 'a' + 10;
	else {
		s->bad = true;
		return;
	}
	s->code = s->code << 4 | digit;
	if (++s->digits == 4)
		scan_end_code(s);
}

/* ---- structure
 *
 * The stack has one level for each open bracket. A level knows its kind and the name of its current
 * member, and json_scan_is() compares a path with it. */

static void scan_open_level(struct json_scan *s, bool array)
{
	if (s->depth == JSON_SCAN_DEPTH) {
		s->bad = true;
		return;
	}
	s->level[s->depth].array = array;
	s->level[s->depth++].key[0] = '\0';
	s->state = array ? VALUE_OR_END : KEY_OR_END;
}

static void scan_close_level(struct json_scan *s, bool array)
{
	if (s->depth == 0 || s->level[s->depth - 1].array != array) {
		s->bad = true;
		return;
	}
	s->depth--;
	s->state = AFTER;
}

/* A number is checked by its characters only, so 1-2 reaches on_scalar(), too. */
static void scan_end_scalar(struct json_scan *s)
{
	const char *w = s->word;

	s->word[s->nword] = '\0';
	s->state = AFTER;
	if (strcmp(w, "true") != 0 && strcmp(w, "false") != 0 && strcmp(w, "null") != 0 &&
	    (w[strspn(w, "+-.eE0123456789")] != '\0' || strpbrk(w, "0123456789") == NULL ||
	     strchr("+.eE", w[0]) != NULL)) {
		s->bad = true;
		return;
	}
	if (s->calls->on_scalar != NULL)
		s->calls->on_scalar(s, w);
}

static void scan_begin_value(struct json_scan *s, uint8_t c)
{
	if (c == '"') {
		scan_begin_string(s, false);
	} else if (c == '{' || c == '[') {
		scan_open_level(s, c == '[');
	} else if (json_word_has((char)c)) {
		s->state = SCALAR;
		s->nword = 0;
		s->word[s->nword++] = (char)c;
	} else {
		s->bad = true;
	}
}

static void scan_after_value(struct json_scan *s, uint8_t c)
{
	if (c == '}' || c == ']')
		scan_close_level(s, c == ']');
	else if (c == ',' && s->depth > 0)
		s->state = s->level[s->depth - 1].array ? VALUE : KEY;
	else
		s->bad = true;
}

/* Bytes between strings and words: white space and structure. The last four states have functions
 * of their own. */
static void scan_between(struct json_scan *s, uint8_t c)
{
	if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
		return;
	switch ((enum json_scan_state)s->state) {
	case VALUE_OR_END:
		if (c == ']')
			scan_close_level(s, true);
		else
			scan_begin_value(s, c);
		return;
	case VALUE:
		scan_begin_value(s, c);
		return;
	case KEY_OR_END:
	case KEY:
		if (c == '"')
			scan_begin_string(s, true);
		else if (c == '}' && s->state == KEY_OR_END)
			scan_close_level(s, false);
		else
			s->bad = true;
		return;
	case COLON:
		s->state = VALUE;
		s->bad = c != ':';
		return;
	case AFTER:
		scan_after_value(s, c);
		return;
	case STRING:
	case ESCAPE:
	case HEX:
	case SCALAR:
		return;
	}
}

/* The byte behind a word ends it, and is a byte of its own. So a document of one bare word is never
 * done. */
static void scan_take(struct json_scan *s, uint8_t c)
{
	if (s->state == STRING) {
		scan_in_string(s, c);
	} else if (s->state == ESCAPE) {
		scan_in_escape(s, c);
	} else if (s->state == HEX) {
		scan_in_hex(s, c);
	} else if (s->state == SCALAR && json_word_has((char)c)) {
		if (s->nword == sizeof(s->word) - 1)
			s->bad = true;
		else
			s->word[s->nword++] = (char)c;
	} else {
		if (s->state == SCALAR)
			scan_end_scalar(s);
		if (!s->bad)
			scan_between(s, c);
	}
}

/* The fast path: plain text of a string value. Return how many bytes it has taken. Names and a
 * waiting half of a pair take the slow path, which keeps the bytes or ends the wait. on_text() gets
 * the bytes in place. */
static size_t scan_take_run(struct json_scan *s, const uint8_t *data, size_t n)
{
	size_t run = 0;

	if (s->state != STRING || s->in_key || s->high != 0)
		return 0;
	while (run < n && data[run] >= 0x20 && data[run] != '"' && data[run] != '\\')
		run++;
	if (run > 0 && s->wanted) {
		scan_flush(s);
		if (s->calls->on_text != NULL)
			s->calls->on_text(s, (const char *)data, run);
	}
	s->at += run;
	return run;
}

void json_scan_feed(struct json_scan *s, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n && !s->bad; i++, s->at++) {
		i += scan_take_run(s, data + i, n - i);
		if (i == n)
			break;
		scan_take(s, data[i]);
	}
	s->done = !s->bad && s->depth == 0 && s->state == AFTER;
}
