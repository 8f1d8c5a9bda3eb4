/* mask_stream.c - texts and streams: the bytes held back, for how long, and the bytes given out.
 * The values found change only the content given out. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mask/mask_private.h"

struct mask_state {
	struct mask_scan *scan; /* owned */
	uint64_t mask;		/* its id */
	uint8_t *held;		/* owned: held[start] to held[start + n - 1] */
	size_t start, n, cap;
	size_t aged;	/* how many of them were there at the last tick */
	unsigned stuck; /* ticks since some were let go, while there were aged ones */
	/* The last bytes given out, as they came: a ring. Another mask begins with them, or a value
	 * whose beginning was given out before would be shown. */
	uint8_t *past;		/* owned */
	size_t past_cap;	/* its size */
	size_t past_at, past_n; /* where the next byte goes, and how many there are */
};

/* ---- whole texts */

size_t mask_text(const struct mask *m, const struct mask_pick *only, uint8_t *text, size_t len)
{
	struct mask_scan *s = m->scratch;

	mask_scan_restart(s);
	s->only = only;
	mask_scan_feed(s, text, len);
	mask_scan_end(s);
	mask_scan_cover(s, 0, text, len);
	return (size_t)s->places;
}

/* ---- streams */

size_t mask_stream_held(const struct mask_stream *s)
{
	return s->state == NULL ? 0 : s->state->n;
}

size_t mask_stream_memory(const struct mask_stream *s)
{
	const struct mask_state *st = s->state;

	if (st == NULL)
		return 0;
	return sizeof(*st) + st->cap + st->past_cap +
	       (st->scan == NULL ? 0 : mask_scan_memory(st->scan));
}

void mask_stream_release(struct mask_stream *s)
{
	struct mask_state *st = s->state;

	if (st == NULL)
		return;
	mask_scan_free(st->scan);
	if (st->held != NULL)
		explicit_bzero(st->held, st->cap);
	free(st->held);
	if (st->past != NULL)
		explicit_bzero(st->past, st->past_cap);
	free(st->past);
	free(st);
	s->state = NULL;
}

/* ---- bytes given out */

/* The oldest byte first. */
static void stream_past_feed(const struct mask_state *st, struct mask_scan *scan)
{
	size_t oldest = st->past_n < st->past_cap ? 0 : st->past_at;

	if (st->past_n == 0)
		return;
	mask_scan_feed(scan, st->past + oldest, st->past_n - oldest);
	mask_scan_feed(scan, st->past, oldest);
}

static void stream_past_add(struct mask_state *st, const uint8_t *data, size_t n)
{
	size_t first;

	if (n > st->past_cap) {
		data += n - st->past_cap;
		n = st->past_cap;
	}
	if (n == 0)
		return;
	first = st->past_cap - st->past_at < n ? st->past_cap - st->past_at : n;
	memcpy(st->past + st->past_at, data, first);
	memcpy(st->past, data + first, n - first);
	st->past_at = (st->past_at + n) % st->past_cap;
	st->past_n = st->past_n + n < st->past_cap ? st->past_n + n : st->past_cap;
}

/* A mask with longer values needs a larger ring. It never shrinks. */
static void stream_past_grow(struct mask_state *st, size_t cap)
{
	struct mask_state old = *st;
	size_t oldest = old.past_n < old.past_cap ? 0 : old.past_at;

	if (cap <= st->past_cap)
		return;
	st->past = malloc(cap);
	assert(st->past != NULL);
	st->past_cap = cap;
	st->past_at = st->past_n = 0;
	if (old.past == NULL)
		return;
	stream_past_add(st, old.past + oldest, old.past_n - oldest);
	stream_past_add(st, old.past, oldest);
	explicit_bzero(old.past, old.past_cap);
	free(old.past);
}

/* Where the first held byte is. */
static uint64_t stream_base(const struct mask_state *st)
{
	return st->scan->at - st->n;
}

/* Begin a new scan with the bytes given out and the bytes held. Values that the old mask found in
 * the held bytes stay covered. */
static void stream_change_mask(struct mask_state *st, const struct mask *m,
			       const struct mask_pick *only)
{
	struct mask_scan *old = st->scan, *scan = mask_scan_new(m);

	assert(scan != NULL);
	scan->only = only;
	stream_past_feed(st, scan);
	mask_scan_forget(scan, scan->at);
	scan->places = 0;
	memset(scan->counts, 0, sizeof(scan->counts));
	if (st->n > 0)
		mask_scan_feed(scan, st->held + st->start, st->n);
	if (old != NULL)
		mask_scan_adopt(scan, scan->at - st->n, old, old->at - st->n);
	mask_scan_free(old);
	st->scan = scan;
	st->mask = m->id;
	stream_past_grow(st, m->past);
}

static struct mask_state *stream_state_of(const struct mask *m, struct mask_stream *s)
{
	struct mask_state *st = s->state;

	if (st == NULL) {
		st = s->state = calloc(1, sizeof(*st));
		assert(st != NULL);
	}
	if (st->scan == NULL || st->mask != m->id)
		stream_change_mask(st, m, s->only);
	st->scan->only = s->only;
	return st;
}

/* Room for more bytes behind the held ones. */
static void stream_make_room(struct mask_state *st, size_t more)
{
	uint8_t *grown;
	size_t cap = st->cap == 0 ? 512 : st->cap;

	if (st->start + st->n + more <= st->cap)
		return;
	while (cap < 2 * (st->n + more))
		cap *= 2;
	if (cap == st->cap) { /* at least half of it is free: this is done once for as many bytes */
		memmove(st->held, st->held + st->start, st->n);
		st->start = 0;
		return;
	}
	grown = malloc(cap);
	assert(grown != NULL);
	if (st->n > 0)
		memcpy(grown, st->held + st->start, st->n);
	if (st->held != NULL)
		explicit_bzero(st->held, st->cap);
	free(st->held);
	st->held = grown;
	st->start = 0;
	st->cap = cap;
}

/* How many of n bytes from `from` on are given out: a found value is given out as a whole, so that
 * a process killed in between shows no part of it. Unless it is longer than the bytes that may be
 * held. */
static size_t stream_whole_values(const struct mask_state *st, uint64_t from, size_t n, size_t hold)
{
	uint64_t at = mask_scan_whole(st->scan, from + n);
	size_t less = at > from ? (size_t)(at - from) : 0;

	return n - less <= hold ? less : n;
}

/* Give out the first n of the held bytes. */
static void stream_let_go(struct mask_state *st, size_t n, uint8_t *out)
{
	if (n == 0)
		return;
	memcpy(out, st->held + st->start, n);
	stream_past_add(st, out, n);
	st->start += n;
	st->n -= n;
	st->aged -= st->aged < n ? st->aged : n;
	if (st->n == 0)
		st->start = 0;
	st->stuck = 0;
}

/* Cover n bytes given out from `from` on. */
static void stream_finish(struct mask_stream *s, struct mask_state *st, uint64_t from, uint8_t *out,
			  size_t n)
{
	mask_scan_cover(st->scan, from, out, n);
	mask_scan_forget(st->scan, from + n);
	s->places += st->scan->places;
	st->scan->places = 0;
	for (unsigned i = 0; i < MASK_COUNTS; i++) {
		s->counts[i] += st->scan->counts[i];
		st->scan->counts[i] = 0;
	}
}

size_t mask_feed(const struct mask *m, struct mask_stream *s, const uint8_t *data, size_t len,
		 uint8_t *out)
{
	struct mask_state *st = stream_state_of(m, s);
	size_t hold = s->most > 0 && s->most < m->hold ? s->most : m->hold;
	size_t all = st->n + len, n = all > hold ? all - hold : 0, old;
	uint64_t from = stream_base(st);

	if (len == 0)
		return 0;
	mask_scan_feed(st->scan, data, len);
	n = stream_whole_values(st, from, n, hold);
	old = n < st->n ? n : st->n;
	stream_let_go(st, old, out);
	if (n > old) {
		memcpy(out + old, data, n - old);
		stream_past_add(st, data, n - old);
	}
	data += n - old;
	len -= n - old;
	stream_make_room(st, len);
	if (len > 0)
		memcpy(st->held + st->start + st->n, data, len);
	st->n += len;
	stream_finish(s, st, from, out, n);
	return n;
}

/* Does the byte end a word? */
static bool stream_ends_word(const struct mask *m, uint8_t c)
{
	if (c == '\n')
		return true;
	return !m->spaced && (c <= ' ' || c == '}' || c == ']' || c == ')' || c == '>');
}

size_t mask_tick(const struct mask *m, struct mask_stream *s, bool words, uint8_t *out)
{
	struct mask_state *st;
	uint64_t from;
	size_t n;

	if (s->state == NULL)
		return 0;
	st = stream_state_of(m, s);
	mask_scan_settle(st->scan);
	n = st->aged;
	from = stream_base(st);
	if (words && ++st->stuck <= MASK_WORD_TICKS)
		while (n > 0 && !stream_ends_word(m, st->held[st->start + n - 1]))
			n--;
	n = stream_whole_values(st, from, n, m->hold);
	stream_let_go(st, n, out);
	stream_finish(s, st, from, out, n);
	st->aged = st->n;
	return n;
}

size_t mask_flush(const struct mask *m, struct mask_stream *s, uint8_t *out)
{
	struct mask_state *st;
	uint64_t from;
	size_t n;

	if (s->state == NULL)
		return 0;
	st = m == NULL ? s->state : stream_state_of(m, s);
	if (m != NULL)
		mask_scan_settle(st->scan);
	n = st->n;
	from = stream_base(st);
	stream_let_go(st, n, out);
	stream_finish(s, st, from, out, n);
	return n;
}

size_t mask_end(const struct mask *m, struct mask_stream *s, uint8_t *out)
{
	size_t n;

	if (s->state == NULL)
		return 0;
	mask_scan_end(stream_state_of(m, s)->scan);
	n = mask_flush(m, s, out);
	mask_stream_release(s);
	return n;
}

/* ---- a whole text in pieces (mask_work_*)
 *
 * Bytes are covered as soon as they were scanned, because the scan keeps a copy of the last ones.
 */

void mask_work_release(struct mask_work *w)
{
	mask_scan_free(w->scan);
	*w = (struct mask_work){ .places = w->places };
}

static void mask_work_begin(const struct mask *m, struct mask_work *w)
{
	if (w->scan != NULL && w->mask == m->id)
		return;
	mask_work_release(w);
	w->scan = mask_scan_new(m);
	assert(w->scan != NULL);
	w->mask = m->id;
}

void mask_work_count(const struct mask *m, struct mask_work *w, const uint8_t *data, size_t n)
{
	mask_work_begin(m, w);
	mask_scan_feed(w->scan, data, n);
	mask_scan_forget(w->scan, w->scan->at);
	w->places += w->scan->places;
	w->scan->places = 0;
}

bool mask_work_step(const struct mask *m, struct mask_work *w, uint8_t *text, size_t len, size_t n)
{
	mask_work_begin(m, w);
	n = n < len - w->at ? n : len - w->at;
	mask_scan_feed(w->scan, text + w->at, n);
	w->at += n;
	if (w->at == len)
		mask_scan_end(w->scan);
	mask_scan_cover(w->scan, 0, text, w->at);
	mask_scan_forget(w->scan, w->at);
	w->places += w->scan->places;
	w->scan->places = 0;
	if (w->at < len)
		return false;
	mask_work_release(w);
	return true;
}
