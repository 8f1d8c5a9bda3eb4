/* doc_json.c - see doc_json.h. One state machine. Bits in `arrays` hold the kinds of open
 * containers. Names are kept whole, texts only if the caller wants them, numbers as one word. */
#include "lib/packages/doc_json.h"

#include <string.h>

#include "lib/base/utf8.h"
#include "lib/json/json_word.h"

/* Skip digits. False: there are none. */
static bool doc_json_digits(const char **p)
{
	const char *begin = *p;

	while (**p >= '0' && **p <= '9')
		++*p;
	return *p > begin;
}

/* Is a word a number of JSON (RFC 8259, 6)? No leading zeros or '+', digits on both sides of the
 * point. */
static bool doc_json_is_number(const char *p)
{
	if (*p == '-')
		p++;
	if (*p == '0')
		p++;
	else if (!doc_json_digits(&p))
		return false;
	if (*p == '.') {
		p++;
		if (!doc_json_digits(&p))
			return false;
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p == '+' || *p == '-')
			p++;
		if (!doc_json_digits(&p))
			return false;
	}
	return *p == '\0';
}

/* What may come next. A byte that does not fit ends the reading with a fault. */
enum doc_json_state {
	VALUE,	      /* a value must follow */
	VALUE_OR_END, /* after '[' */
	KEY_OR_END,   /* after '{' */
	KEY,	      /* after ',' in an object */
	COLON,
	AFTER, /* after a value */
	STRING,
	ESCAPE,
	HEX,
	WORD,
};

/* The large buffers are not cleared: lengths say how much of them is valid. */
void doc_json_init(struct doc_json *j,
		   void (*on)(struct doc_json *, enum doc_event, const char *, size_t), void *arg)
{
	memset(j, 0, offsetof(struct doc_json, key));
	memset(&j->nkey, 0, offsetof(struct doc_json, raw) - offsetof(struct doc_json, nkey));
	j->key[0] = j->text[0] = '\0';
	j->nraw = j->nword = 0;
	j->on = on;
	j->arg = arg;
}

/* The first fault stays: later ones follow from it. */
void doc_json_refuse(struct doc_json *j, enum err_code code, const char *why)
{
	if (j->fault != NULL)
		return;
	j->fault = why;
	j->code = code;
}

static void doc_json_malformed(struct doc_json *j)
{
	doc_json_refuse(j, ERR_INVALID, "the document is not JSON");
}

bool doc_json_in_array(const struct doc_json *j)
{
	return j->depth > 0 && (j->arrays >> j->depth & 1) != 0;
}

bool doc_json_key_is(const struct doc_json *j, const char *name)
{
	/* At DOC_OPEN the name belongs to the new container, a member of the outer one. */
	unsigned depth = j->depth - (j->opening ? 1 : 0);

	return depth > 0 && (j->arrays >> depth & 1) == 0 && !j->key_odd &&
	       strcmp(j->key, name) == 0;
}

static void doc_json_tell(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	if (j->fault == NULL)
		j->on(j, ev, bytes, n);
}

/* ---- strings */

static void mark_odd(struct doc_json *j)
{
	if (j->in_key)
		j->key_odd = true;
	else
		j->odd = true;
}

/* A byte of a name or of a wanted text. Beyond the room the text is odd. */
static void doc_json_put(struct doc_json *j, unsigned c)
{
	char *to = j->in_key ? j->key : j->text;
	size_t *n = j->in_key ? &j->nkey : &j->ntext;
	size_t cap = j->in_key ? sizeof(j->key) : sizeof(j->text);

	if (!j->in_key && !j->want)
		return;
	if (*n + 1 < cap)
		to[(*n)++] = (char)c;
	else
		mark_odd(j);
}

/* As doc_json_put(), for a run of plain bytes. */
static void put_bytes(struct doc_json *j, const char *p, size_t n)
{
	char *to = j->in_key ? j->key + j->nkey : j->text + j->ntext;
	size_t room = j->in_key ? sizeof(j->key) - 1 - j->nkey : sizeof(j->text) - 1 - j->ntext;

	if (!j->in_key && !j->want)
		return;
	if (n > room) {
		mark_odd(j);
		n = room;
	}
	memcpy(to, p, n);
	if (j->in_key)
		j->nkey += n;
	else
		j->ntext += n;
}

/* Write a character in UTF-8. */
static void put_code(struct doc_json *j, unsigned c)
{
	if (c < 0x80) {
		doc_json_put(j, c);
		return;
	}
	if (c < 0x800) {
		doc_json_put(j, 0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			doc_json_put(j, 0xe0 | c >> 12);
		} else {
			doc_json_put(j, 0xf0 | c >> 18);
			doc_json_put(j, 0x80 | (c >> 12 & 0x3f));
		}
		doc_json_put(j, 0x80 | (c >> 6 & 0x3f));
	}
	doc_json_put(j, 0x80 | (c & 0x3f));
}

/* A high surrogate without its low half is no character. */
static void end_high(struct doc_json *j)
{
	if (j->high != 0)
		mark_odd(j);
	j->high = 0;
}

/* Take a \u escape with its four digits. Surrogates come in pairs. */
static void end_unit(struct doc_json *j)
{
	unsigned c = j->unit;
	bool low = c >= 0xdc00 && c < 0xe000;

	j->state = STRING;
	if (low && j->high != 0) {
		put_code(j, 0x10000 + ((j->high - 0xd800) << 10) + (c - 0xdc00));
		j->high = 0;
		return;
	}
	end_high(j);
	if (c >= 0xd800 && c < 0xdc00)
		j->high = c;
	else if (low || c == 0)
		mark_odd(j);
	else
		put_code(j, c);
}

/* Keep the raw bytes of a name, pass on those of a text. */
static void doc_json_raw(struct doc_json *j, const char *p, size_t n)
{
	if (!j->in_key) {
		doc_json_tell(j, DOC_RAW, p, n);
		return;
	}
	if (n > sizeof(j->raw) - j->nraw) {
		doc_json_refuse(j, ERR_LIMIT, "a name of more than 1,024 bytes");
		return;
	}
	memcpy(j->raw + j->nraw, p, n);
	j->nraw += n;
}

/* The callback of DOC_STRING decides about `want`, before the first byte is kept. */
static void begin_string(struct doc_json *j, bool key)
{
	j->state = STRING;
	j->in_key = key;
	j->high = 0;
	if (key) {
		j->nkey = j->nraw = 0;
		j->key_odd = false;
	} else {
		j->ntext = 0;
		j->want = j->odd = false;
		doc_json_tell(j, DOC_STRING, NULL, 0);
	}
	doc_json_raw(j, "\"", 1);
}

static bool is_utf8(const char *text, size_t n)
{
	size_t one;

	for (size_t i = 0; i < n; i += one) {
		one = utf8_length((const uint8_t *)text + i, n - i);
		if (one == 0)
			return false;
	}
	return true;
}

/* A text or name with invalid UTF-8 is odd, but the document stays valid: most texts are never
 * used. */
static void end_string(struct doc_json *j)
{
	end_high(j);
	if (j->in_key) {
		j->key[j->nkey] = '\0';
		j->key_odd = j->key_odd || !is_utf8(j->key, j->nkey);
		j->state = COLON;
		doc_json_tell(j, DOC_KEY, j->raw, j->nraw);
		return;
	}
	j->text[j->ntext] = '\0';
	j->odd = j->odd || !is_utf8(j->text, j->ntext);
	j->state = AFTER;
	doc_json_tell(j, DOC_STRING_END, NULL, 0);
}

/* The byte behind a backslash. */
static void in_escape(struct doc_json *j, char c)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = c == '\0' ? NULL : strchr(from, c);

	if (c == 'u') {
		j->state = HEX;
		j->digits = j->unit = 0;
	} else if (at == NULL) {
		doc_json_malformed(j);
	} else {
		end_high(j);
		doc_json_put(j, (unsigned char)to[at - from]);
		j->state = STRING;
	}
}

static void in_hex(struct doc_json *j, char c)
{
	unsigned lower = (unsigned char)c | 0x20U, digit;

	if (c >= '0' && c <= '9') {
		digit = (unsigned)(c - '0');
	} else if (lower >= 'a' && lower <= 'f') {
		digit = lower - 'a' + 10;
	} else {
		doc_json_malformed(j);
		return;
	}
	j->unit = j->unit << 4 | digit;
	if (++j->digits == 4)
		end_unit(j);
}

/* Take plain bytes of a string, up to its end, an escape or the end of the piece. Return their
 * number. */
static size_t doc_json_plain(struct doc_json *j, const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && (unsigned char)p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
		i++;
	if (i == 0)
		return 0;
	end_high(j);
	put_bytes(j, p, i);
	doc_json_raw(j, p, i);
	return i;
}

/* Take at least one byte of a string. Return their number. */
static size_t in_string(struct doc_json *j, const char *p, size_t n)
{
	size_t i = j->state == STRING ? doc_json_plain(j, p, n) : 0;

	if (i == n || j->fault != NULL)
		return i > 0 ? i : 1;
	if ((unsigned char)p[i] < 0x20) {
		doc_json_malformed(j);
		return i + 1;
	}
	doc_json_raw(j, p + i, 1);
	if (j->state == ESCAPE)
		in_escape(j, p[i]);
	else if (j->state == HEX)
		in_hex(j, p[i]);
	else if (p[i] == '\\')
		j->state = ESCAPE;
	else
		end_string(j);
	return i + 1;
}

/* ---- structure */

/* The caller sets the place of the container in DOC_OPEN. */
static void open_level(struct doc_json *j, bool array)
{
	if (j->depth == DOC_JSON_DEPTH) {
		doc_json_refuse(j, ERR_LIMIT, "the document is nested too deeply");
		return;
	}
	j->depth++;
	j->arrays = (j->arrays & ~(1ULL << j->depth)) | (uint64_t)array << j->depth;
	j->place[j->depth] = 0;
	j->array = array;
	j->state = array ? VALUE_OR_END : KEY_OR_END;
	j->opening = true;
	doc_json_tell(j, DOC_OPEN, NULL, 0);
	j->opening = false;
}

/* DOC_CLOSE comes while the level is still open, so its place can be read. */
static void close_level(struct doc_json *j, bool array)
{
	if (j->depth == 0 || doc_json_in_array(j) != array) {
		doc_json_malformed(j);
		return;
	}
	j->array = array;
	doc_json_tell(j, DOC_CLOSE, NULL, 0);
	j->depth--;
	j->state = AFTER;
}

/* A number ends only at the byte behind it, or at the end of the document. */
static void end_word(struct doc_json *j)
{
	j->word[j->nword] = '\0';
	j->state = AFTER;
	if (strcmp(j->word, "true") != 0 && strcmp(j->word, "false") != 0 &&
	    strcmp(j->word, "null") != 0 && !doc_json_is_number(j->word))
		doc_json_malformed(j);
	doc_json_tell(j, DOC_WORD, j->word, j->nword);
}

static void in_word(struct doc_json *j, char c)
{
	if (j->nword == sizeof(j->word) - 1)
		doc_json_refuse(j, ERR_LIMIT, "a number of more than 63 digits");
	else
		j->word[j->nword++] = c;
}

static void begin_value(struct doc_json *j, char c)
{
	if (c == '"') {
		begin_string(j, false);
	} else if (c == '{' || c == '[') {
		open_level(j, c == '[');
	} else if (json_word_has(c)) {
		j->state = WORD;
		j->nword = 0;
		in_word(j, c);
	} else {
		doc_json_malformed(j);
	}
}

static void after_value(struct doc_json *j, char c)
{
	if (c == '}' || c == ']')
		close_level(j, c == ']');
	else if (c == ',' && j->depth > 0)
		j->state = doc_json_in_array(j) ? VALUE : KEY;
	else
		doc_json_malformed(j);
}

static void in_key_place(struct doc_json *j, char c)
{
	if (c == '"')
		begin_string(j, true);
	else if (c == '}' && j->state == KEY_OR_END)
		close_level(j, false);
	else
		doc_json_malformed(j);
}

/* Between tokens, blanks are skipped and the state decides. */
static void doc_json_between(struct doc_json *j, char c)
{
	if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
		return;
	if (j->state == AFTER) {
		after_value(j, c);
	} else if (j->state == KEY || j->state == KEY_OR_END) {
		in_key_place(j, c);
	} else if (j->state == COLON) {
		j->state = VALUE;
		if (c != ':')
			doc_json_malformed(j);
	} else if (j->state == VALUE_OR_END && c == ']') {
		close_level(j, true);
	} else {
		begin_value(j, c);
	}
}

/* Take at least one byte, and return how many. A byte that ends a word is also read as the next
 * token. */
static size_t doc_json_step(struct doc_json *j, const char *p, size_t n)
{
	if (j->state == STRING || j->state == ESCAPE || j->state == HEX)
		return in_string(j, p, n);
	if (j->state == WORD && json_word_has(*p)) {
		in_word(j, *p);
		return 1;
	}
	if (j->state == WORD)
		end_word(j);
	if (j->fault == NULL)
		doc_json_between(j, *p);
	return 1;
}

static int doc_json_report(const struct doc_json *j, struct err *e)
{
	return j->fault == NULL ? 0 : err_set(e, j->code, "%s", j->fault);
}

int doc_json_feed(struct doc_json *j, const void *bytes, size_t n, struct err *e)
{
	const char *p = bytes;

	for (size_t i = 0; i < n && j->fault == NULL;)
		i += doc_json_step(j, p + i, n - i);
	return doc_json_report(j, e);
}

/* A number or word at the outermost level may have no byte behind it, so it ends here. */
int doc_json_end(struct doc_json *j, struct err *e)
{
	if (j->fault == NULL && j->state == WORD)
		end_word(j);
	if (j->depth > 0 || j->state != AFTER)
		doc_json_malformed(j);
	return doc_json_report(j, e);
}
