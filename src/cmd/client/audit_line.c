/* audit_line.c - see audit_line.h. A cursor walks over the line. Each take_...() function reads
 * one element at the cursor, moves it behind, and returns false where the text is another. So a
 * line form is one expression of such calls.
 *
 * The text is untrusted. No function reads beyond the end of the cursor, and strings are decoded
 * in their place, where they can only get shorter. */
#include "cmd/client/audit_line.h"

#include <string.h>

#include "lib/base/utf8.h"

/* A place in a text. Reading functions move it, and return false where the text is another. */
struct audit_line_cursor {
	char *p, *end;
};

/* True and moved behind the text, or false and unmoved. */
static bool audit_line_take(struct audit_line_cursor *c, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0)
		return false;
	c->p += n;
	return true;
}

/* 0, or up to 19 digits without a leading zero. */
static bool take_number(struct audit_line_cursor *c, uint64_t *ret)
{
	const char *from = c->p;

	*ret = 0;
	while (c->p < c->end && c->p - from < 19 && *c->p >= '0' && *c->p <= '9')
		*ret = *ret * 10 + (uint64_t)(*c->p++ - '0');
	return c->p > from && (*from != '0' || c->p == from + 1);
}

/* Characters of a set, at least one and at most max. */
static bool take_chars(struct audit_line_cursor *c, bool is_one(char), size_t max,
		       struct audit_text *ret)
{
	ret->p = c->p;
	while (c->p < c->end && (size_t)(c->p - ret->p) < max && is_one(*c->p))
		c->p++;
	ret->n = (size_t)(c->p - ret->p);
	return ret->n > 0;
}

/* ---- sets of characters. Each has exactly the members of the same set in examples/verify.py. */
static bool is_name(char x)
{
	return (x >= 'a' && x <= 'z') || (x >= '0' && x <= '9') || x == '_';
}

static bool is_type(char x)
{
	return is_name(x) || x == '.';
}

static bool is_base64(char x)
{
	return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') ||
	       x == '+' || x == '/' || x == '=';
}

/* A digit in lower case. 16: it is none. */
static unsigned hex_of(char x)
{
	if (x >= '0' && x <= '9')
		return (unsigned)(x - '0');
	return x >= 'a' && x <= 'f' ? (unsigned)(x - 'a' + 10) : 16;
}

/* 2 * n digits. */
static bool take_hex(struct audit_line_cursor *c, uint8_t *ret, size_t n)
{
	const char *p = c->p;
	unsigned bad = 0;

	if ((size_t)(c->end - c->p) < 2 * n)
		return false;
	for (size_t i = 0; i < n; i++, p += 2) {
		unsigned high = hex_of(p[0]), low = hex_of(p[1]);

		bad |= high | low;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	if (bad > 15)
		return false;
	c->p += 2 * n;
	return true;
}

/* ---- strings */

/* Escapes of JSON allow both cases, unlike hashes and salts, which have one form. */
static int hex_digit(char x)
{
	return x >= '0' && x <= '9'   ? x - '0'
	       : x >= 'a' && x <= 'f' ? x - 'a' + 10
	       : x >= 'A' && x <= 'F' ? x - 'A' + 10
				      : -1;
}

/* The four digits of an escape. */
static bool take_code(struct audit_line_cursor *c, unsigned *ret)
{
	*ret = 0;
	if (c->end - c->p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(*c->p++);

		if (digit < 0)
			return false;
		*ret = *ret << 4 | (unsigned)digit;
	}
	return true;
}

/* Write UTF-8. The code is at most 0x10ffff and no half of a surrogate pair: take_escaped_code()
 * has checked that. The escape was longer than the result, so `to` never passes the place of
 * reading. */
static char *put_character(char *to, unsigned code)
{
	if (code < 0x80) {
		*to++ = (char)code;
	} else if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
		*to++ = (char)(0x80 | (code & 63));
	} else if (code < 0x10000) {
		*to++ = (char)(0xe0 | code >> 12);
		*to++ = (char)(0x80 | (code >> 6 & 63));
		*to++ = (char)(0x80 | (code & 63));
	} else {
		*to++ = (char)(0xf0 | code >> 18);
		*to++ = (char)(0x80 | (code >> 12 & 63));
		*to++ = (char)(0x80 | (code >> 6 & 63));
		*to++ = (char)(0x80 | (code & 63));
	}
	return to;
}

/* The rest of an escape, behind a backslash and "u". Half a surrogate pair is refused. */
static char *take_escaped_code(struct audit_line_cursor *c, char *to)
{
	unsigned code, low;

	if (!take_code(c, &code) || (code >= 0xdc00 && code <= 0xdfff))
		return NULL;
	if (code >= 0xd800 && code <= 0xdbff) {
		if (!audit_line_take(c, "\\u") || !take_code(c, &low) || low < 0xdc00 ||
		    low > 0xdfff)
			return NULL;
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	}
	return put_character(to, code);
}

/* The rest of an escape, behind its backslash. */
static char *take_escape(struct audit_line_cursor *c, char *to)
{
	static const char names[] = "\\/bfnrt", values[] = "\\/\b\f\n\r\t";
	const char *at;

	if (c->p == c->end)
		return NULL;
	if (*c->p == '"') {
		*to++ = *c->p++;
		return to;
	}
	if (*c->p == 'u') {
		c->p++;
		return take_escaped_code(c, to);
	}
	at = memchr(names, *c->p, sizeof(names) - 1);
	if (at == NULL)
		return NULL;
	c->p++;
	*to++ = values[at - names];
	return to;
}

/* Characters that stand for themselves, and are one byte. A million records have half a billion of
 * them: they are taken without a call. */
static char *take_plain(struct audit_line_cursor *c, char *to)
{
	char *p = c->p;

	while (p < c->end && *p >= ' ' && *p != '"' && *p != '\\')
		*to++ = *p++;
	c->p = p;
	return to;
}

/* A JSON string with its quotes. Decoded in its place: it can only get shorter. */
static bool take_string(struct audit_line_cursor *c, struct audit_text *ret)
{
	char *to;

	if (!audit_line_take(c, "\""))
		return false;
	ret->p = c->p;
	for (to = take_plain(c, c->p); c->p < c->end && *c->p != '"'; to = take_plain(c, to)) {
		size_t n;

		if (*c->p == '\\') {
			c->p++;
			to = take_escape(c, to);
			if (to == NULL)
				return false;
			continue;
		}
		n = utf8_length((const uint8_t *)c->p, (size_t)(c->end - c->p));
		if (n < 2) /* not UTF-8, or a control character */
			return false;
		for (; n > 0; n--)
			*to++ = *c->p++;
	}
	ret->n = (size_t)(to - ret->p);
	return audit_line_take(c, "\"");
}

/* ---- lines */

/* A sealed value with its salt, as the server writes it beside the record. */
static bool take_value(struct audit_line_cursor *c, struct audit_value *ret)
{
	return audit_line_take(c, "\"") && take_chars(c, is_name, AUDIT_FIELD_MAX, &ret->name) &&
	       audit_line_take(c, "\":{\"salt\":\"") && take_hex(c, ret->salt, sizeof(ret->salt)) &&
	       audit_line_take(c, "\",\"value\":") && take_string(c, &ret->value) &&
	       audit_line_take(c, "}");
}

/* Strings are decoded in their place, so the values could not be read a second time. Each is
 * written again in a form for audit_line_side(): name, NUL, salt, length, value. It is shorter. */
static bool take_side(struct audit_line_cursor *c, struct audit_text *ret)
{
	char *to = c->p;
	struct audit_value v;

	ret->p = to;
	if (!audit_line_take(c, "{"))
		return false;
	for (bool more = !audit_line_take(c, "}"); more;) {
		uint32_t n;

		if (!take_value(c, &v))
			return false;
		n = (uint32_t)v.value.n;
		memmove(to, v.name.p, v.name.n);
		to += v.name.n;
		*to++ = '\0';
		memcpy(to, v.salt, sizeof(v.salt));
		to += sizeof(v.salt);
		memcpy(to, &n, sizeof(n));
		to += sizeof(n);
		memmove(to, v.value.p, v.value.n);
		to += v.value.n;
		more = audit_line_take(c, ",");
		if (!more && !audit_line_take(c, "}"))
			return false;
	}
	ret->n = (size_t)(to - ret->p);
	return true;
}

/* The form is our own, written by take_side(), so nothing is checked here. The name ends with a
 * NUL. */
bool audit_line_side(struct audit_text *at, struct audit_value *ret)
{
	const char *p = at->p;
	uint32_t n;

	if (at->n == 0)
		return false;
	ret->name = (struct audit_text){ p, strlen(p) };
	p += ret->name.n + 1;
	memcpy(ret->salt, p, sizeof(ret->salt));
	p += sizeof(ret->salt);
	memcpy(&n, p, sizeof(n));
	ret->value = (struct audit_text){ p + sizeof(n), n };
	p += sizeof(n) + n;
	at->n -= (size_t)(p - at->p);
	at->p = p;
	return true;
}

/* The first line: the log's name and key, and the range that the export promises. */
static bool take_head(struct audit_line_cursor *c, struct audit_line *ret)
{
	ret->kind = AUDIT_LINE_HEAD;
	return take_string(c, &ret->origin) && audit_line_take(c, ",\"vkey\":") &&
	       take_string(c, &ret->vkey) && audit_line_take(c, ",\"first\":") &&
	       take_number(c, &ret->first) && audit_line_take(c, ",\"size\":") &&
	       take_number(c, &ret->size);
}

/* A tile has the hashes of records that were deleted, so that the tree above them can still be
 * computed. */
static bool take_tile(struct audit_line_cursor *c, struct audit_line *ret)
{
	ret->kind = AUDIT_LINE_TILE;
	return take_number(c, &ret->index) && audit_line_take(c, ",\"hashes\":\"") &&
	       take_chars(c, is_base64, SIZE_MAX, &ret->text) && audit_line_take(c, "\"");
}

/* A record as text, because its bytes are hashed, and the values behind its commitments. */
static bool take_leaf(struct audit_line_cursor *c, struct audit_line *ret)
{
	ret->kind = AUDIT_LINE_LEAF;
	if (!take_number(c, &ret->index) || !audit_line_take(c, ",\"leaf\":") ||
	    !take_string(c, &ret->text))
		return false;
	return !audit_line_take(c, ",\"side\":") || take_side(c, &ret->side);
}

/* The first member tells the kind. A line must be used up to its last byte: a second form of the
 * same content could hide a difference from one of the two verifiers. */
bool audit_line_read(char *line, size_t len, struct audit_line *ret)
{
	struct audit_line_cursor c = { line, line + len };
	bool good;

	*ret = (struct audit_line){ .kind = AUDIT_LINE_CHECKPOINT };
	if (audit_line_take(&c, "{\"index\":"))
		good = take_leaf(&c, ret);
	else if (audit_line_take(&c, "{\"checkpoint\":"))
		good = take_string(&c, &ret->text);
	else if (audit_line_take(&c, "{\"tile\":0,\"index\":"))
		good = take_tile(&c, ret);
	else
		good = audit_line_take(&c, "{\"cordon_audit\":1,\"origin\":") && take_head(&c, ret);
	return good && audit_line_take(&c, "}") && c.p == c.end;
}

/* ---- records: read only, though the cursor could write */

static struct audit_line_cursor cursor_of(struct audit_text t)
{
	char *p = (char *)(uintptr_t)t.p;

	return (struct audit_line_cursor){ p, p + t.n };
}

/* Digits of a date, then the text behind them. */
static bool take_part(struct audit_line_cursor *c, size_t n, const char *after, int64_t *ret)
{
	*ret = 0;
	if ((size_t)(c->end - c->p) < n)
		return false;
	for (; n > 0; n--, c->p++) {
		if (*c->p < '0' || *c->p > '9')
			return false;
		*ret = *ret * 10 + (*c->p - '0');
	}
	return audit_line_take(c, after);
}

/* Days since 1970, in the proleptic Gregorian calendar. A month that does not exist is counted on
 * from others. */
static int64_t days_from(int64_t year, int64_t month, int64_t day)
{
	int64_t era, of_era;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	of_era = year - era * 400;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 +
	       (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1 - 719468;
}

/* The server writes one form only. Values outside a calendar are not refused, because the
 * signature covers the text, and the number serves for ages and order. */
static bool take_time(struct audit_line_cursor *c, int64_t *ret_ms)
{
	int64_t year, month, day, hour, minute, second, more;

	if (!take_part(c, 4, "-", &year) || !take_part(c, 2, "-", &month) ||
	    !take_part(c, 2, "T", &day) || !take_part(c, 2, ":", &hour) ||
	    !take_part(c, 2, ":", &minute) || !take_part(c, 2, ".", &second) ||
	    !take_part(c, 3, "Z", &more))
		return false;
	*ret_ms = (((days_from(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000 +
		  more;
	return true;
}

/* The head members come first, in one order. The rest of the record is not parsed: any JSON may
 * follow. */
bool audit_record_read(struct audit_text record, struct audit_record_head *ret)
{
	struct audit_line_cursor c = cursor_of(record);

	if (record.n > AUDIT_RECORD_MAX || !audit_line_take(&c, "{\"v\":1,\"seq\":") ||
	    !take_number(&c, &ret->seq) || !audit_line_take(&c, ",\"time\":\"") ||
	    !take_time(&c, &ret->time_ms) || !audit_line_take(&c, "\",\"type\":\"") ||
	    !take_chars(&c, is_type, AUDIT_TYPE_MAX, &ret->type) || !audit_line_take(&c, "\""))
		return false;
	return (audit_line_take(&c, ",") || audit_line_take(&c, "}")) &&
	       record.p[record.n - 1] == '}';
}

/* One commitment: 32 bytes as hexadecimal digits. */
static bool take_seal(struct audit_line_cursor *c, struct audit_text *ret_name, uint8_t ret[32])
{
	return audit_line_take(c, "\"") && take_chars(c, is_name, AUDIT_FIELD_MAX, ret_name) &&
	       audit_line_take(c, "\":\"c:") && take_hex(c, ret, 32) && audit_line_take(c, "\"");
}

/* The last member, if it has the form of one. In a string its quotes would be escaped. */
struct audit_text audit_record_sealed(struct audit_text record)
{
	static const char name[] = ",\"sealed\":{";
	struct audit_text none = { NULL, 0 }, field;
	const char *at = NULL, *more = record.p;
	uint8_t hash[32];
	struct audit_line_cursor c;

	while ((more = memmem(more, record.n - (size_t)(more - record.p), name,
			      sizeof(name) - 1)) != NULL)
		at = more++;
	if (at == NULL)
		return none;
	at += sizeof(name) - 1;
	c = cursor_of((struct audit_text){ at, record.n - (size_t)(at - record.p) });
	do
		if (!take_seal(&c, &field, hash))
			return none;
	while (audit_line_take(&c, ","));
	if (!audit_line_take(&c, "}}") || c.p != c.end)
		return none;
	return (struct audit_text){ at, (size_t)(c.end - 2 - at) };
}

/* Moves *at to the next one. audit_record_sealed() has checked the form of all. */
bool audit_record_seal(struct audit_text *at, struct audit_text *ret_name, uint8_t ret[32])
{
	struct audit_line_cursor c;

	if (at->n == 0)
		return false;
	c = cursor_of(*at);
	if (!take_seal(&c, ret_name, ret))
		return false;
	(void)audit_line_take(&c, ",");
	*at = (struct audit_text){ c.p, (size_t)(c.end - c.p) };
	return true;
}

/* Text without quotes and backslashes. */
static bool is_plain(char x)
{
	return x != '"' && x != '\\';
}

/* Look for the text, and read the rest, wherever possible. */
static bool audit_line_find(struct audit_text record, const char *text,
			    bool read(struct audit_line_cursor *c, void *arg), void *arg)
{
	struct audit_line_cursor c = cursor_of(record);

	while ((c.p = memmem(c.p, (size_t)(c.end - c.p), text, strlen(text))) != NULL) {
		struct audit_line_cursor behind = { c.p + strlen(text), c.end };

		if (read(&behind, arg))
			return true;
		c.p++;
	}
	return false;
}

/* The vkey alone is enough. Without former and proof the key is new and no other key has vouched
 * for it: audit_verify.c decides. */
static bool read_new_key(struct audit_line_cursor *c, void *arg)
{
	struct audit_new_key *ret = arg;

	*ret = (struct audit_new_key){ 0 };
	(void)take_chars(c, is_plain, SIZE_MAX, &ret->vkey);
	if (!audit_line_take(c, "\""))
		return false;
	if (!audit_line_take(c, ",\"former\":\""))
		return true;
	(void)take_chars(c, is_plain, SIZE_MAX, &ret->former);
	if (!audit_line_take(c, "\",\"proof\":\""))
		return true;
	(void)take_chars(c, is_plain, SIZE_MAX, &ret->proof);
	if (!audit_line_take(c, "\""))
		ret->proof = (struct audit_text){ 0 };
	return true;
}

bool audit_record_new_key(struct audit_text record, struct audit_new_key *ret)
{
	return audit_line_find(record, ",\"data\":{\"vkey\":\"", read_new_key, ret);
}

static bool read_pruned(struct audit_line_cursor *c, void *arg)
{
	uint64_t *ret = arg;

	return take_number(c, &ret[0]) && audit_line_take(c, ",\"to\":") &&
	       take_number(c, &ret[1]) && (audit_line_take(c, ",") || audit_line_take(c, "}"));
}

/* Both numbers are untrusted until a checkpoint covers the record. */
bool audit_record_pruned(struct audit_text record, uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t both[2];

	if (!audit_line_find(record, ",\"data\":{\"from\":", read_pruned, both))
		return false;
	*ret_from = both[0];
	*ret_to = both[1];
	return true;
}
