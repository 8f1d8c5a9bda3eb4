/* mask_scan.c - finds needles and patterns in a stream: a bounded number of steps for each byte,
 * whatever the needles and the bytes are. mask.c explains how. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mask_private.h"

/* ---- what is to be covered */

static void runs_make_room(struct mask_scan *s)
{
	if (s->first + s->n < s->cap)
		return;
	if (s->first > s->cap / 2) {
		memmove(s->runs, s->runs + s->first, s->n * sizeof(s->runs[0]));
		s->first = 0;
		return;
	}
	s->cap = s->cap == 0 ? 16 : s->cap * 2;
	s->runs = reallocarray(s->runs, s->cap, sizeof(s->runs[0]));
	assert(s->runs != NULL);
}

/* Runs that the new one touches become part of it. Those of different views come nearly in order:
 * an escape is known to be none some bytes later. */
static void cover(struct mask_scan *s, uint64_t from, uint64_t to)
{
	size_t i, k;

	runs_make_room(s);
	for (k = s->first + s->n; k > s->first && s->runs[k - 1].from > to; k--)
		;
	for (i = k; i > s->first && s->runs[i - 1].to >= from; i--) {
		from = s->runs[i - 1].from < from ? s->runs[i - 1].from : from;
		to = s->runs[i - 1].to > to ? s->runs[i - 1].to : to;
	}
	memmove(s->runs + i + 1, s->runs + k, (s->first + s->n - k) * sizeof(s->runs[0]));
	s->runs[i] = (struct mask_run){ from, to };
	s->n = s->n + 1 - (k - i);
	s->places = s->places + 1 - (k - i);
}

void mask_scan_cover(const struct mask_scan *s, uint64_t from, uint8_t *out, size_t n)
{
	for (size_t i = s->first; i < s->first + s->n && s->runs[i].from < from + n; i++) {
		uint64_t begin = s->runs[i].from > from ? s->runs[i].from - from : 0;
		uint64_t end = s->runs[i].to > from ? s->runs[i].to - from : 0;

		end = end < n ? end : n;
		if (end > begin)
			memset(out + begin, '*', (size_t)(end - begin));
	}
}

uint64_t mask_scan_whole(const struct mask_scan *s, uint64_t at)
{
	size_t low = s->first, high = s->first + s->n;

	while (low < high) { /* the first run that ends behind it */
		size_t middle = low + (high - low) / 2;

		if (s->runs[middle].to > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low < s->first + s->n && s->runs[low].from < at ? s->runs[low].from : at;
}

void mask_scan_forget(struct mask_scan *s, uint64_t to)
{
	while (s->n > 0 && s->runs[s->first].to <= to) {
		s->first++;
		s->n--;
	}
	if (s->n == 0)
		s->first = 0;
}

void mask_scan_adopt(struct mask_scan *s, uint64_t base, const struct mask_scan *old,
		     uint64_t old_base)
{
	size_t cap = s->n + old->n + 1, n = 0, i = 0, k = 0;
	struct mask_run *all = reallocarray(NULL, cap, sizeof(all[0]));

	assert(all != NULL);
	while (i < s->n || k < old->n) {
		struct mask_run r = { 0 }, o = { 0 };

		if (i < s->n)
			r = s->runs[s->first + i];
		if (k < old->n) {
			o = old->runs[old->first + k];
			o.from = base + (o.from > old_base ? o.from - old_base : 0);
			o.to = base + (o.to > old_base ? o.to - old_base : 0);
		}
		if (i == s->n || (k < old->n && o.from < r.from)) {
			r = o;
			k++;
		} else {
			i++;
		}
		if (n > 0 && all[n - 1].to >= r.from)
			all[n - 1].to = all[n - 1].to > r.to ? all[n - 1].to : r.to;
		else
			all[n++] = r;
	}
	s->places = n > old->n ? n - old->n : 0; /* the others are counted */
	free(s->runs);
	s->runs = all;
	s->first = 0;
	s->n = n;
	s->cap = cap;
}

/* ---- views */

/* Where the unit began that is so many units back. The stream has `end` bytes by then. */
static uint64_t view_began(const struct mask_scan *s, const struct mask_view *v, uint64_t units,
			   uint64_t end)
{
	uint32_t at = v->at[(v->units - units) & (s->size - 1)];

	return end - (uint32_t)((uint32_t)end - at);
}

static uint64_t view_hash(const struct mask_scan *s, const struct mask_view *v, uint64_t units,
			  uint64_t power)
{
	return v->hash - v->sum[(v->units - units) & (s->size - 1)] * power;
}

/* The needles of a chain, longest first: the first that is there covers the others. */
static void look_at_chain(struct mask_scan *s, const struct mask_view *v, uint32_t i, uint64_t end)
{
	for (; i != 0; i = s->m->needles[i - 1].next) {
		const struct mask_needle *n = &s->m->needles[i - 1];
		uint64_t from;

		s->steps++;
		if (v->units < n->units || view_hash(s, v, n->units, n->power) != n->hash ||
		    (s->only != NULL && !mask_pick_has(s->only, n->value)))
			continue;
		from = view_began(s, v, n->units, end);
		cover(s, from > n->before ? from - n->before : 0, end);
		return;
	}
}

static void look(struct mask_scan *s, const struct mask_view *v, uint64_t end)
{
	for (size_t k = 0; k < s->m->nwindows; k++) {
		const struct mask_window *w = &s->m->windows[k];
		uint64_t hash;

		if (v->units < w->width)
			continue;
		s->steps++;
		hash = view_hash(s, v, w->width, w->power);
		for (size_t i = hash * MASK_BASE >> w->shift; w->slots[i].first != 0;
		     i = (i + 1) & (w->n - 1))
			if (w->slots[i].end == hash) {
				look_at_chain(s, v, w->slots[i].first, end);
				break;
			}
	}
}

/* One byte of a view, which stands in the stream from `from` to `end`. */
static void view_take(struct mask_scan *s, struct mask_view *v, uint8_t c, uint64_t from,
		      uint64_t end)
{
	uint64_t place = v->units & (s->size - 1);

	if (mask_is_break(c))
		return;
	v->sum[place] = v->hash;
	v->at[place] = (uint32_t)from;
	v->units++;
	v->hash = mask_hash_add(v->hash, mask_fold(c));
	look(s, v, end);
}

/* ---- the decoded view */

static size_t utf8(uint32_t c, uint8_t ret[4])
{
	if (c < 0x80) {
		ret[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		ret[0] = (uint8_t)(0xc0 | c >> 6);
		ret[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		ret[0] = (uint8_t)(0xe0 | c >> 12);
		ret[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		ret[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	ret[0] = (uint8_t)(0xf0 | c >> 18);
	ret[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	ret[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	ret[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}

/* From here on the view `twice` differs from `decoded`: it begins as that was before the escape.
 * Its rings have MASK_ESCAPE_ROOM units more than a needle, so those are still there. */
static void fork_view(struct mask_scan *s, uint64_t units)
{
	memcpy(s->twice.sum, s->decoded.sum, s->size * sizeof(s->twice.sum[0]));
	memcpy(s->twice.at, s->decoded.at, s->size * sizeof(s->twice.at[0]));
	s->twice.units = units;
	s->twice.hash = s->twice.sum[units & (s->size - 1)];
	s->twice_differs = true;
}

static void decode(struct mask_scan *s, unsigned level, uint8_t c, struct mask_run at);

/* A byte with the escapes of that level undone. */
static void put(struct mask_scan *s, unsigned level, uint8_t c, struct mask_run at)
{
	if (level == 0) {
		view_take(s, &s->decoded, c, at.from, at.to);
		if (s->twice_differs || s->decoders[1].n > 0 || mask_escape_begins(c))
			decode(s, 1, c, at);
	} else if (s->twice_differs) {
		view_take(s, &s->twice, c, at.from, at.to);
		s->twice_differs = s->twice.units < s->twice_until;
	}
}

/* The first n bytes that were read are an escape. Of URLs and "\x": a byte. Of others: a
 * character. */
static void take_escape(struct mask_scan *s, unsigned level, size_t n, uint32_t code)
{
	struct mask_decoder *d = &s->decoders[level];
	bool is_byte = d->text[0] == '%' || (d->text[0] == '\\' && d->text[1] == 'x');
	uint8_t bytes[4] = { (uint8_t)code };
	struct mask_run at = { d->at[0].from, d->at[n - 1].to };
	size_t len = is_byte ? 1 : utf8(code, bytes);

	d->n = 0;
	if (level == 1) {
		if (!s->twice_differs)
			fork_view(s, d->units);
		s->twice_until = s->twice.units + len + s->m->longest;
	}
	for (size_t i = 0; i < len; i++)
		put(s, level, bytes[i], at);
}

/* The bytes read so far are no escape: they are literal. The last `keep` of them are not consumed
 * yet. */
static void take_literally(struct mask_scan *s, unsigned level, size_t keep)
{
	struct mask_decoder *d = &s->decoders[level];
	size_t n = d->n;

	d->n = 0;
	for (size_t i = 0; i + keep < n; i++)
		put(s, level, d->text[i], d->at[i]);
}

/* "\ud83d" without its other half: the bytes behind it are read again. */
static void take_half(struct mask_scan *s, unsigned level)
{
	struct mask_decoder d = s->decoders[level];
	uint32_t code = 0;

	(void)mask_escape_read(d.text, 6, &code);
	take_escape(s, level, 6, code);
	for (size_t i = 6; i < d.n; i++)
		decode(s, level, d.text[i], d.at[i]);
}

/* The byte at `at` of what that level reads: the stream, or the stream decoded once. */
static void decode(struct mask_scan *s, unsigned level, uint8_t c, struct mask_run at)
{
	struct mask_decoder *d = &s->decoders[level];
	uint32_t code = 0;

	if (d->n == 0 && !mask_escape_begins(c)) {
		put(s, level, c, at);
		return;
	}
	if (d->n == 0)
		d->units = s->decoded.units - 1;
	d->text[d->n] = c;
	d->at[d->n++] = at;
	switch (mask_escape_read(d->text, d->n, &code)) {
	case MASK_ESCAPE_MORE:
		break;
	case MASK_ESCAPE_WHOLE:
		take_escape(s, level, d->n, code);
		break;
	case MASK_ESCAPE_NONE: /* but for half a character, only its last byte can begin another */
		if (d->n > 6 && d->text[1] == 'u') {
			take_half(s, level);
			break;
		}
		take_literally(s, level, 1);
		decode(s, level, c, at);
		break;
	}
}

/* ---- all of it */

static void step_patterns(struct mask_scan *s, uint8_t c, size_t at)
{
	for (size_t i = 0; i < s->m->npatterns; i++) {
		const struct mask_pattern *p = &s->m->patterns[i];
		size_t began;

		if (s->patterns[i].top == 0 && !mask_set_has(&p->set[0], c))
			continue;
		s->steps += s->patterns[i].top + 1;
		began = mask_pattern_step(p, &s->patterns[i], c, at);
		if (began != MASK_NONE)
			cover(s, began, at + 1);
	}
}

void mask_scan_feed(struct mask_scan *s, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t at = s->at++;

		if (s->m->npatterns > 0)
			step_patterns(s, data[i], (size_t)at);
		if (s->m->n == 0)
			continue;
		view_take(s, &s->raw, data[i], at, at + 1);
		decode(s, 0, data[i], (struct mask_run){ at, at + 1 });
	}
}

void mask_scan_end(struct mask_scan *s)
{
	take_literally(s, 0, 0);
	take_literally(s, 1, 0);
}

void mask_scan_restart(struct mask_scan *s)
{
	s->decoded.units = s->decoded.hash = s->raw.units = s->raw.hash = 0;
	s->decoders[0].n = s->decoders[1].n = 0;
	s->twice_differs = false;
	s->at = 0;
	s->first = s->n = 0;
	s->places = 0;
	for (size_t i = 0; i < s->m->npatterns; i++)
		s->patterns[i].top = 0;
}

static int view_init(struct mask_view *v, uint64_t size)
{
	v->sum = calloc(size, sizeof(v->sum[0]));
	v->at = calloc(size, sizeof(v->at[0]));
	return v->sum == NULL || v->at == NULL ? -1 : 0;
}

static void view_release(struct mask_view *v, uint64_t size)
{
	if (v->sum != NULL)
		explicit_bzero(v->sum, size * sizeof(v->sum[0]));
	free(v->sum);
	free(v->at);
}

struct mask_scan *mask_scan_new(const struct mask *m)
{
	struct mask_scan *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->m = m;
	s->npatterns = m->npatterns;
	s->size = 1;
	while (s->size < m->longest + MASK_ESCAPE_ROOM)
		s->size *= 2;
	if (m->npatterns > 0)
		s->patterns = calloc(m->npatterns, sizeof(s->patterns[0]));
	if (view_init(&s->decoded, s->size) < 0 || view_init(&s->raw, s->size) < 0 ||
	    view_init(&s->twice, s->size) < 0 || (m->npatterns > 0 && s->patterns == NULL)) {
		mask_scan_free(s);
		return NULL;
	}
	return s;
}

size_t mask_scan_memory(const struct mask_scan *s)
{
	size_t view = (size_t)s->size * (sizeof(s->raw.sum[0]) + sizeof(s->raw.at[0]));

	return sizeof(*s) + 3 * view + s->npatterns * sizeof(s->patterns[0]) +
	       s->cap * sizeof(s->runs[0]);
}

void mask_scan_free(struct mask_scan *s)
{
	if (s == NULL)
		return;
	view_release(&s->decoded, s->size);
	view_release(&s->raw, s->size);
	view_release(&s->twice, s->size);
	free(s->patterns);
	free(s->runs);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
