/* code_answer.c - splits the answer into lines, and masks texts of output. The code below also
 * masks other lines. */
#include "front/e2b/code/code_answer.h"

#include <assert.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/json/json.h"

/* ---- code line
 *
 * Masks each line of an answer other than output, within itself. For code_answer.c, whose structure
 * it works on.
 *
 * mask_feed() gives as many bytes back as it gets, some of them covered. code_line_give() lets a
 * covered byte through only where its kind allows. So the line stays JSON. */

#define SCRATCH_MAX (4U << 20) /* a stream's text, and the most that a mask holds */
#define WAIT_MAX (2U << 20)    /* twice as much as a piece, and twice the most that a mask holds */

enum code_answer_kind {
	FIXED,	     /* structure: stays as it is */
	TEXT,	     /* of a string, or of a line other than JSON */
	ESCAPE,	     /* of an escape sequence, covered as a whole */
	ESCAPE_LAST, /* and its last byte */
	NUMBER,
};

enum code_answer_state { OUTSIDE, STRING, BACKSLASH, HEX_1, HEX_2, HEX_3, HEX_4 };

/* The buffers hold secrets until they are masked, and are wiped. */
static void code_line_init(struct code_answer *k)
{
	buf_init(&k->raw, WAIT_MAX);
	buf_init(&k->kinds, WAIT_MAX);
	buf_init(&k->scratch, SCRATCH_MAX);
	k->raw.secret = k->scratch.secret = true;
}

static void code_line_release(struct code_answer *k)
{
	mask_stream_release(&k->mask);
	buf_release(&k->raw);
	buf_release(&k->kinds);
	buf_release(&k->scratch);
}

/* ---- kinds of bytes
 *
 * A small state machine finds the kind of each byte in a line. It accepts any bytes. */

/* A plus sign, a dot and an exponent count within a number only. */
static bool is_number(const struct code_answer *k, uint8_t c)
{
	if (c == '-' || (c >= '0' && c <= '9'))
		return true;
	return k->in_number && (c == '+' || c == '.' || c == 'e' || c == 'E');
}

static enum code_answer_kind code_line_outside(struct code_answer *k, uint8_t c)
{
	k->in_number = is_number(k, c);
	if (c == '"')
		k->state = STRING;
	if (k->in_number)
		return NUMBER;
	return c != '\0' && strchr("{}[]:,\" \t\r\n", c) != NULL ? FIXED : TEXT;
}

static enum code_answer_kind in_string(struct code_answer *k, uint8_t c)
{
	if (c == '"')
		k->state = OUTSIDE;
	if (c == '\\')
		k->state = BACKSLASH;
	return c == '"' ? FIXED : c == '\\' ? ESCAPE : TEXT;
}

/* Sets the state for the next byte. */
static enum code_answer_kind kind_of(struct code_answer *k, uint8_t c)
{
	switch ((enum code_answer_state)k->state) {
	case OUTSIDE:
		return code_line_outside(k, c);
	case STRING:
		return in_string(k, c);
	case BACKSLASH:
		k->state = c == 'u' ? HEX_1 : STRING;
		return c == 'u' ? ESCAPE : ESCAPE_LAST;
	case HEX_1:
	case HEX_2:
	case HEX_3:
		k->state++;
		return ESCAPE;
	case HEX_4:
		break;
	}
	k->state = STRING;
	return ESCAPE_LAST;
}

/* ---- output of the mask
 *
 * raw and kinds have the same length. `passed` of their bytes have been given out, and the mask
 * holds the rest. */

/* Room for n bytes: buffers are larger than their contents can become. */
static uint8_t *room_for(struct buf *b, size_t n)
{
	struct err e;
	uint8_t *to = buf_reserve(b, n, &e);

	assert(to != NULL);
	return to;
}

/* Room for n bytes until the next call. The caller wipes its bytes. The room is kept, because a
 * cell decides how often it is needed. */
static uint8_t *code_line_scratch(struct code_answer *k, size_t n)
{
	return room_for(&k->scratch, n);
}

/* Return how many bytes it has written. An escape is collected and then given out or covered as a
 * whole: half a covered one would be no JSON. */
static size_t put_escape(struct code_answer *k, uint8_t raw, uint8_t masked, bool last, uint8_t *to)
{
	size_t n;

	k->escape[k->nescape++] = raw;
	k->escape_covered = k->escape_covered || masked != raw;
	if (!last)
		return 0;
	n = k->nescape;
	if (k->escape_covered)
		memset(to, '*', n);
	else
		memcpy(to, k->escape, n);
	k->nescape = 0;
	k->escape_covered = false;
	return n;
}

/* Structure passes even if the mask covers it. */
static size_t put_one(struct code_answer *k, enum code_answer_kind kind, uint8_t raw,
		      uint8_t masked, uint8_t *to)
{
	switch (kind) {
	case FIXED:
		*to = raw;
		break;
	case TEXT:
		*to = masked;
		break;
	case NUMBER:
		*to = masked == raw ? raw : '1';
		break;
	case ESCAPE:
	case ESCAPE_LAST:
		return put_escape(k, raw, masked, kind == ESCAPE_LAST, to);
	}
	return 1;
}

/* masked: the next n bytes of raw, in order. */
static void code_line_give(struct code_answer *k, const uint8_t *masked, size_t n, struct buf *out)
{
	uint8_t *to = room_for(out, n + sizeof(k->escape));
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += put_one(k, (enum code_answer_kind)k->kinds.data[k->passed + i],
				k->raw.data[k->passed + i], masked[i], to + used);
	buf_commit(out, used);
	k->passed += n;
	if (k->passed < k->raw.len - k->passed)
		return; /* what is held is moved once for as many bytes, not for each call */
	buf_consume(&k->raw, k->passed);
	buf_consume(&k->kinds, k->passed);
	k->passed = 0;
}

/* n more bytes were put into raw. The mask may hold some back. */
static void code_line_pass(struct code_answer *k, const struct mask *m, const uint8_t *data,
			   size_t n, struct buf *out)
{
	size_t all = n + mask_stream_held(&k->mask) + 1, got;
	uint8_t *to;

	to = code_line_scratch(k, all);
	assert(k->raw.len - k->passed + 1 >= all && k->raw.len == k->kinds.len);
	if (m != NULL) {
		got = mask_feed(m, &k->mask, data, n, to);
	} else { /* the mask is gone: its findings stay covered */
		got = mask_flush(NULL, &k->mask, to);
		memcpy(to + got, data, n);
		got += n;
	}
	code_line_give(k, to, got, out);
	explicit_bzero(to, got); /* the rest was not written */
}

/* The next bytes of a line. fixed: they are the beginning that names its type, or its newline, and
 * are never covered. */
static void code_line_feed(struct code_answer *k, const struct mask *m, const uint8_t *data,
			   size_t n, bool fixed, struct buf *out)
{
	uint8_t *kinds = room_for(&k->kinds, n);

	for (size_t i = 0; i < n; i++) {
		enum code_answer_kind kind = kind_of(k, data[i]);

		kinds[i] = fixed ? FIXED : (uint8_t)kind;
	}
	buf_commit(&k->kinds, n);
	buf_put(&k->raw, data, n);
	if (fixed && data[n - 1] == '\n')
		k->state = OUTSIDE;
	code_line_pass(k, m, data, n, out);
}

/* Mask the next bytes of an answer without lines. */
static void code_line_text(struct code_answer *k, const struct mask *m, const uint8_t *data,
			   size_t n, struct buf *out)
{
	memset(room_for(&k->kinds, n), TEXT, n);
	buf_commit(&k->kinds, n);
	buf_put(&k->raw, data, n);
	code_line_pass(k, m, data, n, out);
}

/* Give out all held bytes. */
static void code_line_end(struct code_answer *k, const struct mask *m, struct buf *out)
{
	size_t held = mask_stream_held(&k->mask), n;

	if (held > 0) {
		uint8_t *to = code_line_scratch(k, held);

		n = mask_flush(m, &k->mask, to);
		code_line_give(k, to, n, out);
		explicit_bzero(to, n);
	}
	k->nescape = 0; /* a line that ends inside of one is no JSON: the rest of it is dropped */
	k->escape_covered = false;
}

#define TEXT_MAX (2U << 20) /* of a lane: a piece and all held text */

/* A line's type is known by its first bytes. */
static const char *const heads[] = {
	[CODE_ANSWER_STDOUT] = "{\"type\":\"stdout\"",
	[CODE_ANSWER_STDERR] = "{\"type\":\"stderr\"",
	[CODE_ANSWER_RESULT] = "{\"type\":\"result\"",
	[CODE_ANSWER_ERROR] = "{\"type\":\"error\"",
	[CODE_ANSWER_COUNT] = "{\"type\":\"number_of_executions\"",
	[CODE_ANSWER_KEEPALIVE] = "{\"type\":\"keepalive\"",
	[CODE_ANSWER_END] = "{\"type\":\"end_of_execution\"",
};
_Static_assert(COUNT(heads) == CODE_ANSWER_OTHER, "one for each type");

/* Lines whose text is decoded and becomes a stream. */
static bool is_output(const struct code_answer *k)
{
	return k->line <= CODE_ANSWER_STDERR;
}

/* The record has lines of this type among the results. */
static bool is_result(const struct code_answer *k)
{
	return k->line == CODE_ANSWER_RESULT || k->line == CODE_ANSWER_ERROR ||
	       k->line == CODE_ANSWER_COUNT;
}

/* keep NULL: nothing is kept. */
static void code_answer_keep(struct code_answer *k, enum output_stream stream, const uint8_t *bytes,
			     size_t n)
{
	if (k->keep != NULL && n > 0)
		k->keep(k->keep_arg, stream, bytes, n);
}

/* Keep what code_line_*() has appended to out since it had so many bytes. */
static void keep_since(struct code_answer *k, const struct buf *out, size_t before)
{
	if (is_result(k) && out->len > before)
		code_answer_keep(k, OUTPUT_RESULT, out->data + before, out->len - before);
}

/* ---- text of lines
 *
 * json_scan calls these for lines of output. Only the member text of the line itself counts. */

static bool on_string(struct json_scan *s)
{
	return s->depth == 1 && strcmp(json_scan_key(s), "text") == 0;
}

/* Without a mask the text goes to the record at once. The client gets the line as it came. */
static void on_text(struct json_scan *s, const char *bytes, size_t n)
{
	struct code_answer *k = s->arg;

	k->bytes[k->line] += n;
	if (k->masked)
		buf_put(&k->lanes[k->line].text, bytes, n);
	else
		code_answer_keep(k, output_stream_at(k->line), (const uint8_t *)bytes, n);
}

/* Wiped on release, as texts of output may hold secrets. */
void code_answer_init(struct code_answer *k, bool is_text)
{
	*k = (struct code_answer){ .is_text = is_text };
	for (unsigned i = 0; i < COUNT(k->lanes); i++) {
		buf_init(&k->lanes[i].text, TEXT_MAX);
		k->lanes[i].text.secret = true;
	}
	code_line_init(k);
}

void code_answer_release(struct code_answer *k)
{
	for (unsigned i = 0; i < COUNT(k->lanes); i++) {
		mask_stream_release(&k->lanes[i].mask);
		buf_release(&k->lanes[i].text);
	}
	code_line_release(k);
}

/* How many bytes at the end are the beginning of a character. */
static size_t part_of_character(const uint8_t *p, size_t n)
{
	for (size_t i = 1; i <= 3 && i <= n; i++) {
		uint8_t c = p[n - i];

		if ((c & 0xc0) != 0x80)
			return (c >= 0xf0 ? 4U : c >= 0xe0 ? 3U : c >= 0xc0 ? 2U : 1U) > i ? i : 0;
	}
	return 0;
}

/* A new line of the given type with the time of now. No text, no line. */
static void put_line(const char *stream, const uint8_t *text, size_t n, struct buf *out)
{
	char stamp[40];
	struct json j;

	if (n == 0)
		return;
	clock_stamp(stamp, sizeof(stamp));
	json_init_heap(&j, 6 * n + 256);
	json_open(&j, NULL, '{');
	json_text(&j, "type", stream);
	json_bytes(&j, "text", text, n);
	json_text(&j, "timestamp", stamp);
	json_close(&j, '}');
	assert(json_ok(&j));
	buf_put(out, j.text, j.len);
	buf_put(out, "\n", 1);
	json_release(&j);
}

/* How much held text a push gives out: new text only, text held for a tick, all, or all with an
 * unfinished character. */
enum push { PUSH_TEXT, PUSH_TICK, PUSH_ALL, PUSH_END };

/* to has room for all text and all held bytes. Returns the bytes written there. */
static size_t push_mask(struct code_answer_lane *l, const struct mask *m, enum push how,
			uint8_t *to)
{
	size_t n = 0;

	if (m != NULL && l->text.len > 0)
		n = mask_feed(m, &l->mask, l->text.data, l->text.len, to);
	if (m == NULL)
		n = mask_flush(NULL, &l->mask, to);
	else if (how == PUSH_TICK)
		n += mask_tick(m, &l->mask, false, to + n);
	else if (how == PUSH_ALL)
		n += mask_flush(m, &l->mask, to + n);
	else if (how == PUSH_END)
		n += mask_end(m, &l->mask, to + n);
	if (m == NULL && l->text.len > 0) {
		memcpy(to + n, l->text.data, l->text.len);
		n += l->text.len;
	}
	buf_clear(&l->text);
	return n;
}

/* Give the lane's text to its mask, and the mask's output to the client. */
static void code_answer_push(struct code_answer *k, unsigned i, const struct mask *m, enum push how,
			     struct buf *out)
{
	struct code_answer_lane *l = &k->lanes[i];
	size_t all = l->text.len + mask_stream_held(&l->mask) + l->npart, n, part;
	uint8_t *to;

	/* A cell can send a line in one byte, while a stream holds hundreds of KiB. The cost of a
	 * call depends on arriving and leaving bytes, not on held ones. */
	if (all == 0 || (how == PUSH_TEXT && m != NULL && l->text.len == 0))
		return;
	to = code_line_scratch(k, all);
	memcpy(to, l->part, l->npart);
	n = l->npart + push_mask(l, m, how, to + l->npart);
	part = how == PUSH_END ? 0 : part_of_character(to, n);
	memcpy(l->part, to + n - part, part);
	l->npart = part;
	code_answer_keep(k, output_stream_at(i), to, n - part);
	put_line(i == 0 ? "stdout" : "stderr", to, n - part, out);
	explicit_bzero(to, n);
}

static void push_both(struct code_answer *k, const struct mask *m, enum push how, struct buf *out)
{
	for (unsigned i = 0; i < COUNT(k->lanes); i++)
		code_answer_push(k, i, m, how, out);
}

/* ---- lines
 *
 * code_answer_take() splits the bytes. begin_line() runs when the type is known, code_answer_give()
 * for each part, and end_line() at the newline. */

/* The type of the line with these first bytes. -1: more are needed. */
static int find_type(const uint8_t *head, size_t n)
{
	bool more = false;

	for (int i = 0; i < CODE_ANSWER_OTHER; i++) {
		size_t len = strlen(heads[i]);

		if (n >= len && memcmp(head, heads[i], len) == 0)
			return i;
		more = more || (n < len && memcmp(head, heads[i], n) == 0);
	}
	return more ? -1 : CODE_ANSWER_OTHER;
}

/* out NULL: the client has the bytes already, and they are only counted and scanned. */
static void code_answer_give(struct code_answer *k, const struct mask *m, const uint8_t *data,
			     size_t n, bool fixed, struct buf *out)
{
	size_t before = out == NULL ? 0 : out->len;

	if (is_result(k))
		k->bytes[output_index(OUTPUT_RESULT)] += n;
	if (is_result(k) && !k->masked)
		code_answer_keep(k, OUTPUT_RESULT, data, n);
	if (is_output(k))
		json_scan_feed(&k->scan, data, n);
	if (out == NULL || (is_output(k) && k->masked))
		return;
	k->was_given = true;
	if (k->masked) {
		code_line_feed(k, m, data, n, fixed, out);
		keep_since(k, out, before);
	} else {
		buf_put(out, data + k->noted, n - k->noted);
	}
}

/* The first bytes, kept until the type was known, are given out here. */
static void begin_line(struct code_answer *k, const struct mask *m, int type, struct buf *out)
{
	static const struct json_scan_calls calls = { .on_string = on_string, .on_text = on_text };

	k->line = (enum code_answer_line)type;
	k->in_line = true;
	k->lines++;
	k->failed = k->failed || k->line == CODE_ANSWER_ERROR;
	k->over = k->over || k->line == CODE_ANSWER_END;
	if (is_output(k)) {
		json_scan_init(&k->scan, &calls, k);
		k->scan.keep_nul = true;
	} else if (out != NULL) {
		push_both(k, m,
			  k->line == CODE_ANSWER_END	 ? PUSH_END
			  : k->line == CODE_ANSWER_ERROR ? PUSH_ALL
							 : PUSH_TEXT,
			  out);
	}
	code_answer_give(k, m, k->head, k->nhead, k->line != CODE_ANSWER_OTHER, out);
	k->nhead = k->noted = 0;
}

static void end_line(struct code_answer *k, const struct mask *m, struct buf *out)
{
	size_t before;

	code_answer_give(k, m, (const uint8_t *)"\n", 1, true, out);
	if (out != NULL && k->masked && !is_output(k)) {
		before = out->len;
		code_line_end(k, m, out);
		keep_since(k, out, before);
	}
	k->in_line = k->was_given = false;
}

/* Take some bytes, and return how many. */
static size_t code_answer_take(struct code_answer *k, const struct mask *m, const uint8_t *data,
			       size_t n, struct buf *out)
{
	const uint8_t *newline = memchr(data, '\n', n);
	size_t len = newline == NULL ? n : (size_t)(newline - data);
	int type;

	if (!k->in_line) {
		if (k->nhead == 0)
			k->masked = m != NULL;
		if (len > 0)
			k->head[k->nhead++] = data[0];
		k->noted = out == NULL ? k->nhead : k->noted;
		type = len == 0 ? CODE_ANSWER_OTHER : find_type(k->head, k->nhead);
		if (type >= 0)
			begin_line(k, m, type, out);
		return len > 0;
	}
	if (len > 0)
		code_answer_give(k, m, data, len, false, out);
	if (newline == NULL)
		return len;
	end_line(k, m, out);
	return len + 1;
}

/* A line that began with a mask must also end with it. */
bool code_answer_is_plain(const struct code_answer *k, const struct mask *m)
{
	return m == NULL && !code_answer_holds(k) && !(k->masked && (k->in_line || k->nhead > 0));
}

void code_answer_note(struct code_answer *k, const uint8_t *data, size_t n)
{
	for (size_t at = 0; at < n && !k->is_text;)
		at += code_answer_take(k, NULL, data + at, n - at, NULL);
}

void code_answer_feed(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		      struct buf *out)
{
	if (k->is_text) {
		code_line_text(k, m, data, n, out);
		return;
	}
	for (size_t at = 0; at < n;)
		at += code_answer_take(k, m, data + at, n - at, out);
	if (!k->was_given)
		push_both(k, m, PUSH_TEXT, out);
}

void code_answer_tick(struct code_answer *k, const struct mask *m, struct buf *out)
{
	if (!k->was_given && !k->is_text)
		push_both(k, m, PUSH_TICK, out);
}

/* A line without its newline is closed, so that held output can follow it as lines. */
void code_answer_end(struct code_answer *k, const struct mask *m, struct buf *out)
{
	size_t before;

	if (!k->in_line && k->nhead > 0)
		begin_line(k, m, CODE_ANSWER_OTHER, out);
	before = out->len;
	code_line_end(k, m, out);
	keep_since(k, out, before);
	if (k->was_given)
		buf_put(out, "\n", 1);
	if (!k->is_text)
		push_both(k, m, PUSH_END, out);
	k->in_line = k->was_given = false;
}

bool code_answer_holds(const struct code_answer *k)
{
	return mask_stream_held(&k->mask) > 0 || mask_stream_held(&k->lanes[0].mask) > 0 ||
	       mask_stream_held(&k->lanes[1].mask) > 0;
}

/* The counts begin again at 0. */
uint64_t code_answer_places(struct code_answer *k)
{
	uint64_t n = k->mask.places + k->lanes[0].mask.places + k->lanes[1].mask.places;

	k->mask.places = k->lanes[0].mask.places = k->lanes[1].mask.places = 0;
	return n;
}
