/* code_answer.c - splits the answer into lines, and masks texts of output. What other lines are
 * made of is in code_line.c. */
#include "code_answer.h"

#include <assert.h>
#include <string.h>

#include "clock.h"
#include "code_line.h"
#include "json.h"

#define TEXT_MAX (2U << 20) /* of a lane: what a piece and all that is held can be */

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

static void keep(struct code_answer *k, enum output_stream stream, const uint8_t *bytes, size_t n)
{
	if (k->keep != NULL && n > 0)
		k->keep(k->keep_arg, stream, bytes, n);
}

/* Keeps what code_line.c has appended to out since it had so many bytes. */
static void keep_since(struct code_answer *k, const struct buf *out, size_t before)
{
	if (is_result(k) && out->len > before)
		keep(k, OUTPUT_RESULT, out->data + before, out->len - before);
}

/* ---- text of lines */

static bool on_string(struct json_scan *s)
{
	return s->depth == 1 && strcmp(json_scan_key(s), "text") == 0;
}

static void on_text(struct json_scan *s, const char *bytes, size_t n)
{
	struct code_answer *k = s->arg;

	k->bytes[k->line] += n;
	if (k->masked)
		buf_put(&k->lanes[k->line].text, bytes, n);
	else
		keep(k, output_stream_at(k->line), (const uint8_t *)bytes, n);
}

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

enum push { PUSH_TEXT, PUSH_TICK, PUSH_ALL, PUSH_END };

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

/* Gives what is in the lane to its mask, and what comes out to the client. */
static void push(struct code_answer *k, unsigned i, const struct mask *m, enum push how,
		 struct buf *out)
{
	struct code_answer_lane *l = &k->lanes[i];
	size_t all = l->text.len + mask_stream_held(&l->mask) + l->npart, n, part;
	uint8_t *to;

	/* A cell can send a line in one byte, while a stream holds hundreds of KiB: what a call
	 * does depends on what comes and goes, not on what is held. */
	if (all == 0 || (how == PUSH_TEXT && m != NULL && l->text.len == 0))
		return;
	to = code_line_scratch(k, all);
	memcpy(to, l->part, l->npart);
	n = l->npart + push_mask(l, m, how, to + l->npart);
	part = how == PUSH_END ? 0 : part_of_character(to, n);
	memcpy(l->part, to + n - part, part);
	l->npart = part;
	keep(k, output_stream_at(i), to, n - part);
	put_line(i == 0 ? "stdout" : "stderr", to, n - part, out);
	explicit_bzero(to, n);
}

static void push_both(struct code_answer *k, const struct mask *m, enum push how, struct buf *out)
{
	for (unsigned i = 0; i < COUNT(k->lanes); i++)
		push(k, i, m, how, out);
}

/* ---- lines */

/* The type of the line whose first bytes these are; -1: more are needed. */
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

static void give(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		 bool fixed, struct buf *out)
{
	size_t before = out == NULL ? 0 : out->len;

	if (is_result(k))
		k->bytes[output_index(OUTPUT_RESULT)] += n;
	if (is_result(k) && !k->masked)
		keep(k, OUTPUT_RESULT, data, n);
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
	give(k, m, k->head, k->nhead, k->line != CODE_ANSWER_OTHER, out);
	k->nhead = k->noted = 0;
}

static void end_line(struct code_answer *k, const struct mask *m, struct buf *out)
{
	size_t before;

	give(k, m, (const uint8_t *)"\n", 1, true, out);
	if (out != NULL && k->masked && !is_output(k)) {
		before = out->len;
		code_line_end(k, m, out);
		keep_since(k, out, before);
	}
	k->in_line = k->was_given = false;
}

/* Takes some bytes, and returns how many. */
static size_t take(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		   struct buf *out)
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
		give(k, m, data, len, false, out);
	if (newline == NULL)
		return len;
	end_line(k, m, out);
	return len + 1;
}

bool code_answer_is_plain(const struct code_answer *k, const struct mask *m)
{
	return m == NULL && !code_answer_holds(k) && !(k->masked && (k->in_line || k->nhead > 0));
}

void code_answer_note(struct code_answer *k, const uint8_t *data, size_t n)
{
	for (size_t at = 0; at < n && !k->is_text;)
		at += take(k, NULL, data + at, n - at, NULL);
}

void code_answer_feed(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		      struct buf *out)
{
	if (k->is_text) {
		code_line_text(k, m, data, n, out);
		return;
	}
	for (size_t at = 0; at < n;)
		at += take(k, m, data + at, n - at, out);
	if (!k->was_given)
		push_both(k, m, PUSH_TEXT, out);
}

void code_answer_tick(struct code_answer *k, const struct mask *m, struct buf *out)
{
	if (!k->was_given && !k->is_text)
		push_both(k, m, PUSH_TICK, out);
}

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

uint64_t code_answer_places(struct code_answer *k)
{
	uint64_t n = k->mask.places + k->lanes[0].mask.places + k->lanes[1].mask.places;

	k->mask.places = k->lanes[0].mask.places = k->lanes[1].mask.places = 0;
	return n;
}
