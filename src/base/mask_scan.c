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

/* Runs inside of the new one go, one that it touches is extended: each is added and taken once. */
static void cover(struct mask_scan *s, uint64_t from, uint64_t to)
{
	struct mask_run *last;

	while (s->n > 0 && s->runs[s->first + s->n - 1].from >= from) {
		last = &s->runs[s->first + --s->n];
		to = last->to > to ? last->to : to;
		s->places--;
	}
	last = s->n > 0 ? &s->runs[s->first + s->n - 1] : NULL;
	if (last != NULL && last->to >= from) {
		last->to = last->to > to ? last->to : to;
		return;
	}
	runs_make_room(s);
	s->runs[s->first + s->n++] = (struct mask_run){ from, to };
	s->places++;
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

/* Of URLs and "\x": bytes. Of JSON and HTML: characters. */
static void take_escape(struct mask_scan *s, uint32_t code)
{
	bool is_byte = s->escape[0] == '%' || (s->escape[0] == '\\' && s->escape[1] == 'x');
	uint8_t bytes[4] = { (uint8_t)code };
	size_t n = is_byte ? 1 : utf8(code, bytes);

	for (size_t i = 0; i < n; i++)
		view_take(s, &s->decoded, bytes[i], s->at - s->nescape, s->at);
	s->nescape = 0;
}

/* The bytes read so far are no escape: they are literal. The last `keep` of them are not consumed
 * yet. */
static void take_literally(struct mask_scan *s, size_t keep)
{
	uint64_t began = s->at - s->nescape;

	for (size_t i = 0; i + keep < s->nescape; i++)
		view_take(s, &s->decoded, s->escape[i], began + i, began + i + 1);
	s->nescape = 0;
}

/* The byte that ends at s->at. */
static void decode(struct mask_scan *s, uint8_t c)
{
	uint32_t code = 0;

	if (s->nescape == 0 && !mask_escape_begins(c)) {
		view_take(s, &s->decoded, c, s->at - 1, s->at);
		return;
	}
	s->escape[s->nescape++] = c;
	switch (mask_escape_read(s->escape, s->nescape, &code)) {
	case MASK_ESCAPE_MORE:
		break;
	case MASK_ESCAPE_WHOLE:
		take_escape(s, code);
		break;
	case MASK_ESCAPE_NONE: /* only its last byte can begin another one */
		take_literally(s, 1);
		decode(s, c);
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
		decode(s, data[i]);
	}
}

void mask_scan_end(struct mask_scan *s)
{
	take_literally(s, 0);
}

void mask_scan_restart(struct mask_scan *s)
{
	s->decoded.units = s->decoded.hash = s->raw.units = s->raw.hash = 0;
	s->nescape = 0;
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
	while (s->size < m->longest)
		s->size *= 2;
	if (m->npatterns > 0)
		s->patterns = calloc(m->npatterns, sizeof(s->patterns[0]));
	if (view_init(&s->decoded, s->size) < 0 || view_init(&s->raw, s->size) < 0 ||
	    (m->npatterns > 0 && s->patterns == NULL)) {
		mask_scan_free(s);
		return NULL;
	}
	return s;
}

size_t mask_scan_memory(const struct mask_scan *s)
{
	size_t view = (size_t)s->size * (sizeof(s->raw.sum[0]) + sizeof(s->raw.at[0]));

	return sizeof(*s) + 2 * view + s->npatterns * sizeof(s->patterns[0]) +
	       s->cap * sizeof(s->runs[0]);
}

void mask_scan_free(struct mask_scan *s)
{
	if (s == NULL)
		return;
	view_release(&s->decoded, s->size);
	view_release(&s->raw, s->size);
	free(s->patterns);
	free(s->runs);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
