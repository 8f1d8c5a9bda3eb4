/* code_line.c - see code_line.h.
 *
 * The mask gets the bytes as they are, since it finds values behind JSON's escapes, and gives back
 * as many. Which of them it may change is decided here: each byte is given a kind when it comes,
 * and bytes and kinds wait together until the mask gives the bytes out. */
#include "code_line.h"

#include <assert.h>
#include <string.h>

#define SCRATCH_MAX (4U << 20) /* a stream's text, and the most that a mask holds */
#define WAIT_MAX (2U << 20)    /* twice as much as a piece, and twice the most that a mask holds */

enum kind {
	FIXED,	     /* structure: stays as it is */
	TEXT,	     /* of a string, or of what is no JSON */
	ESCAPE,	     /* of an escape sequence, which is covered as a whole */
	ESCAPE_LAST, /* and its last byte */
	NUMBER,
};

enum state { OUTSIDE, STRING, BACKSLASH, HEX_1, HEX_2, HEX_3, HEX_4 };

void code_line_init(struct code_answer *k)
{
	buf_init(&k->raw, WAIT_MAX);
	buf_init(&k->kinds, WAIT_MAX);
	buf_init(&k->scratch, SCRATCH_MAX);
	k->raw.secret = k->scratch.secret = true;
}

void code_line_release(struct code_answer *k)
{
	mask_stream_release(&k->mask);
	buf_release(&k->raw);
	buf_release(&k->kinds);
	buf_release(&k->scratch);
}

/* ---- what a byte is */

static bool is_number(const struct code_answer *k, uint8_t c)
{
	if (c == '-' || (c >= '0' && c <= '9'))
		return true;
	return k->in_number && (c == '+' || c == '.' || c == 'e' || c == 'E');
}

static enum kind outside(struct code_answer *k, uint8_t c)
{
	k->in_number = is_number(k, c);
	if (c == '"')
		k->state = STRING;
	if (k->in_number)
		return NUMBER;
	return c != '\0' && strchr("{}[]:,\" \t\r\n", c) != NULL ? FIXED : TEXT;
}

static enum kind in_string(struct code_answer *k, uint8_t c)
{
	if (c == '"')
		k->state = OUTSIDE;
	if (c == '\\')
		k->state = BACKSLASH;
	return c == '"' ? FIXED : c == '\\' ? ESCAPE : TEXT;
}

static enum kind kind_of(struct code_answer *k, uint8_t c)
{
	switch ((enum state)k->state) {
	case OUTSIDE:
		return outside(k, c);
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

/* ---- what comes out of the mask */

/* Room for n bytes: buffers are larger than all that is ever in them. */
static uint8_t *room_for(struct buf *b, size_t n)
{
	struct err e;
	uint8_t *to = buf_reserve(b, n, &e);

	assert(to != NULL);
	return to;
}

uint8_t *code_line_scratch(struct code_answer *k, size_t n)
{
	return room_for(&k->scratch, n);
}

/* Returns how many bytes it has written. */
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

static size_t put_one(struct code_answer *k, enum kind kind, uint8_t raw, uint8_t masked,
		      uint8_t *to)
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

static void give(struct code_answer *k, const uint8_t *masked, size_t n, struct buf *out)
{
	uint8_t *to = room_for(out, n + sizeof(k->escape));
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += put_one(k, (enum kind)k->kinds.data[k->passed + i],
				k->raw.data[k->passed + i], masked[i], to + used);
	buf_commit(out, used);
	k->passed += n;
	if (k->passed < k->raw.len - k->passed)
		return; /* what is held is moved once for as many bytes, not for each call */
	buf_consume(&k->raw, k->passed);
	buf_consume(&k->kinds, k->passed);
	k->passed = 0;
}

static void pass(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		 struct buf *out)
{
	size_t all = n + mask_stream_held(&k->mask) + 1, got;
	uint8_t *to;

	to = code_line_scratch(k, all);
	assert(k->raw.len - k->passed + 1 >= all && k->raw.len == k->kinds.len);
	if (m != NULL) {
		got = mask_feed(m, &k->mask, data, n, to);
	} else { /* the mask is gone: what it has found stays covered */
		got = mask_flush(NULL, &k->mask, to);
		memcpy(to + got, data, n);
		got += n;
	}
	give(k, to, got, out);
	explicit_bzero(to, got); /* the rest was not written */
}

void code_line_feed(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		    bool fixed, struct buf *out)
{
	uint8_t *kinds = room_for(&k->kinds, n);

	for (size_t i = 0; i < n; i++) {
		enum kind kind = kind_of(k, data[i]);

		kinds[i] = fixed ? FIXED : (uint8_t)kind;
	}
	buf_commit(&k->kinds, n);
	buf_put(&k->raw, data, n);
	if (fixed && data[n - 1] == '\n')
		k->state = OUTSIDE;
	pass(k, m, data, n, out);
}

void code_line_text(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		    struct buf *out)
{
	memset(room_for(&k->kinds, n), TEXT, n);
	buf_commit(&k->kinds, n);
	buf_put(&k->raw, data, n);
	pass(k, m, data, n, out);
}

void code_line_end(struct code_answer *k, const struct mask *m, struct buf *out)
{
	size_t held = mask_stream_held(&k->mask), n;

	if (held > 0) {
		uint8_t *to = code_line_scratch(k, held);

		n = mask_flush(m, &k->mask, to);
		give(k, to, n, out);
		explicit_bzero(to, n);
	}
	k->nescape = 0; /* a line that ends inside of one is no JSON: the rest of it is dropped */
	k->escape_covered = false;
}
