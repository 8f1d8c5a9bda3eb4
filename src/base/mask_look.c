/* One look at a text: mask.c explains it. */
#include <string.h>

#include "mask_inside.h"

/* The unit of the folded stream that ends at `end` > 0: its length and byte. */
static size_t unit_before(const uint8_t *src, size_t end, uint8_t *ret)
{
	int escaped = end < 3 ? -1 : mask_escape(src + end - 3);

	*ret = escaped < 0 ? src[end - 1] : (uint8_t)escaped;
	return escaped < 0 ? 1 : 3;
}

/* Where `units` bytes of the folded stream begin that end at `end`; or stop, if that is behind. */
static size_t walk_back(const uint8_t *src, size_t end, size_t units, size_t stop)
{
	while (units > 0 && end > stop) {
		uint8_t c;

		end -= unit_before(src, end, &c);
		units -= !mask_is_break(c);
	}
	return end;
}

static void cover(struct mask_look *l, size_t from, size_t to)
{
	memset(l->out + from, '*', to - from);
	if (l->places == 0 || from > l->covered_to)
		l->places++;
	if (to > l->covered_to)
		l->covered_to = to;
}

static void found(struct mask_look *l, struct mask_needle *n, size_t end)
{
	/* Matches of one text begin in the order in which they end, so what is before the end of
	 * the last one is covered: time stays linear. */
	size_t stop = n->end, from;

	from = n->raw ? end - n->len : walk_back(l->src, end, n->len, stop);
	cover(l, from > stop ? from : stop, end);
	n->end = end;
}

static void step_needles(struct mask_look *l, uint8_t c, bool raw, size_t end)
{
	struct mask *m = l->m;
	struct mask_needle **active = m->active[raw];
	size_t kept = 0;

	for (size_t i = 0; i < m->nactive[raw]; i++) {
		struct mask_needle *n = active[i];

		if (mask_needle_step(n, c))
			found(l, n, end);
		if (n->state > 0)
			active[kept++] = n;
	}
	for (struct mask_needle *n = m->first[raw][c]; n != NULL; n = n->next_first)
		if (n->state == 0) {
			n->state = 1;
			n->end = 0;
			active[kept++] = n;
		}
	m->nactive[raw] = kept;
}

static void forget_needles(struct mask *m, bool raw)
{
	for (size_t i = 0; i < m->nactive[raw]; i++)
		m->active[raw][i]->state = 0;
	m->nactive[raw] = 0;
}

/* What is looked for in the bytes as they are. */
static bool step_raw(struct mask_look *l, size_t at)
{
	bool busy = false;

	for (size_t i = 0; i < l->m->npatterns; i++) {
		struct mask_pattern *p = &l->m->patterns[i];
		size_t began;

		if (p->top == 0 && !mask_set_has(&p->set[0], l->src[at]))
			continue;
		began = mask_pattern_step(p, l->src[at], at);
		if (began != MASK_NONE)
			cover(l, began, at + 1);
		busy = busy || p->top > 0;
	}
	step_needles(l, l->src[at], true, at + 1);
	return busy;
}

/* The next place at which something can begin. */
static size_t skip(const struct mask_look *l, size_t i)
{
	const uint64_t *pairs = l->m->pairs;
	const uint8_t *src = l->src;

	for (; i + 1 < l->n; i++) {
		size_t k = (size_t)src[i] << 8 | src[i + 1];

		if ((pairs[k >> 6] >> (k & 63) & 1) != 0)
			return i;
	}
	return i < l->n && l->m->single[src[i]] ? i : l->n;
}

/* The unit at i: its length and byte; 0: an escape that may be cut. */
static size_t unit_at(const struct mask_look *l, size_t i, bool final, uint8_t *ret)
{
	size_t left = l->n - i;
	int escaped;

	*ret = l->src[i];
	if (*ret != '%')
		return 1;
	escaped = left > 2 ? mask_escape(l->src + i) : -1;
	if (escaped >= 0) {
		*ret = (uint8_t)escaped;
		return 3;
	}
	if (!final && l->m->n > 0 && (left == 1 || (left == 2 && mask_hex(l->src[i + 1]) >= 0)))
		return 0;
	return 1;
}

void mask_look_at(struct mask_look *l, bool final)
{
	struct mask *m = l->m;
	unsigned breaks = 0;
	bool busy = false;
	size_t i = 0;

	while (i < l->n) {
		size_t unit;
		uint8_t c;

		if (!busy && m->nactive[0] + m->nactive[1] == 0) {
			i = skip(l, i);
			breaks = 0;
			if (i == l->n)
				break;
		}
		unit = unit_at(l, i, final, &c);
		if (unit == 0)
			break;
		for (size_t k = 0; k < unit; k++)
			busy = step_raw(l, i + k);
		i += unit;
		breaks = mask_is_break(c) ? breaks + 1 : 0;
		if (breaks == 0)
			step_needles(l, mask_fold(c), false, i);
		else if (breaks > MASK_BREAKS_MAX)
			forget_needles(m, false);
	}
	l->end = i;
}

/* How much of the longest text is behind us that is under way. */
static size_t longest(const struct mask *m, bool raw)
{
	size_t most = 0;

	for (size_t i = 0; i < m->nactive[raw]; i++) {
		const struct mask_needle *n = m->active[raw][i];
		size_t state = n->state == n->len ? n->fail[n->len] : n->state;

		most = state > most ? state : most;
	}
	return most;
}

/* Where what is under way begins; where the look ended, if nothing is. */
size_t mask_look_hold(const struct mask_look *l)
{
	const struct mask *m = l->m;
	size_t h = walk_back(l->src, l->end, longest(m, false), 0), raw = longest(m, true);

	h = l->end - raw < h ? l->end - raw : h;
	for (size_t i = 0; i < m->npatterns; i++)
		for (size_t k = 1; k <= m->patterns[i].top && k < m->patterns[i].n; k++)
			if (m->patterns[i].began[k] < h)
				h = m->patterns[i].began[k];
	/* Not from the middle of an escape. */
	for (size_t k = 1; k <= 2 && k <= h; k++)
		if (h - k + 2 < l->n && mask_escape(l->src + h - k) >= 0)
			return h - k;
	return h;
}

/* Nothing more can be waited for: what looks much like a value is covered. */
void mask_look_cover_beginning(struct mask_look *l)
{
	size_t folded = longest(l->m, false), raw = longest(l->m, true);

	if (folded >= MASK_VALUE_MIN)
		cover(l, walk_back(l->src, l->end, folded, 0), l->end);
	if (raw >= MASK_VALUE_MIN)
		cover(l, l->end - raw, l->end);
}

void mask_look_forget(struct mask *m)
{
	forget_needles(m, false);
	forget_needles(m, true);
	for (size_t i = 0; i < m->npatterns; i++)
		m->patterns[i].top = 0;
}
