/* mask_lengths.c - finds the longest needle that a text ends with, among those with the same
 * window: by a search over their lengths, so that a thousand values which end alike cost a dozen
 * steps for a byte and not a thousand.
 *
 * The needles of a slot have some lengths. A search begins at the middle one. If the end of the
 * text of that length is a mark, the search continues among the longer ones, else among the shorter
 * ones. So each needle needs a mark at each length where the search for it turns to the longer
 * ones, and one at its own. A mark knows the longest needle that it ends with: the answer, if the
 * search finds nothing longer. Marks are found by their length and hash.
 *
 * The marks are made when the units of all needles are still there (mask_needle.text). They are
 * wiped then. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mask/mask_private.h"

static size_t lengths_place_of(const struct mask *m, uint32_t units, uint64_t hash)
{
	return (size_t)((hash + units * 0xff51afd7ed558ccdULL) * MASK_BASE >> m->marks_shift);
}

/* The mark, or the free place where it belongs. */
static struct mask_mark *lengths_find_place(const struct mask *m, uint32_t units, uint64_t hash)
{
	size_t i = lengths_place_of(m, units, hash);

	while (m->marks[i].units != 0 && (m->marks[i].units != units || m->marks[i].hash != hash))
		i = (i + 1) & (m->nmarks - 1);
	return &m->marks[i];
}

const struct mask_mark *mask_lengths_mark(const struct mask *m, uint32_t units, uint64_t hash)
{
	const struct mask_mark *mark = lengths_find_place(m, units, hash);

	return mark->units == 0 ? NULL : mark;
}

/* ---- the lengths of a slot */

/* A chain has the longest first. */
static void lengths_take_lengths(struct mask *m, struct mask_slot *slot)
{
	uint32_t last = 0, from = (uint32_t)m->nlengths;

	for (uint32_t i = slot->first; i != 0; i = m->needles[i - 1].next) {
		const struct mask_needle *n = &m->needles[i - 1];

		if (n->units != last)
			m->lengths[m->nlengths++] = (struct mask_length){ n->units, n->power };
		last = n->units;
	}
	slot->lengths = from;
	slot->nlengths = (uint32_t)m->nlengths - from;
	for (uint32_t i = 0; i < slot->nlengths / 2; i++) {
		struct mask_length *a = &m->lengths[from + i];
		struct mask_length *b = &m->lengths[from + slot->nlengths - 1 - i];
		struct mask_length swapped = *a;

		*a = *b;
		*b = swapped;
	}
}

/* ---- marks */

/* A needle while its marks are made: sums[i] is the hash of its first i units. */
struct mask_lengths_maker {
	struct mask *m;
	const struct mask_slot *slot;
	uint32_t units;
	uint64_t sums[MASK_UNITS_MAX + 1];
};

static void lengths_begin(struct mask_lengths_maker *k, const struct mask_slot *slot,
			  const struct mask_needle *n)
{
	k->slot = slot;
	k->units = n->units;
	k->sums[0] = 0;
	for (uint32_t i = 0; i < n->units; i++)
		k->sums[i + 1] = mask_hash_add(k->sums[i], n->text[i]);
}

/* The mark of its end of that length. */
static struct mask_mark *lengths_mark_at(const struct mask_lengths_maker *k, uint32_t at)
{
	const struct mask_length *l = &k->m->lengths[at];

	return lengths_find_place(k->m, l->units,
				  k->sums[k->units] - k->sums[k->units - l->units] * l->power);
}

static void lengths_put_marks(struct mask_lengths_maker *k, uint32_t needle)
{
	uint32_t low = k->slot->lengths, high = low + k->slot->nlengths;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct mask_length *l = &k->m->lengths[middle];
		struct mask_mark *mark;

		if (l->units > k->units) {
			high = middle;
			continue;
		}
		mark = lengths_mark_at(k, middle);
		if (mark->units == 0)
			*mark = (struct mask_mark){ .hash = k->sums[k->units] -
							    k->sums[k->units - l->units] * l->power,
						    .units = l->units };
		low = middle + 1;
		if (l->units < k->units)
			continue;
		if (mark->best == 0) /* the first of a chain has the most bytes before it */
			mark->best = needle;
		return;
	}
}

/* The longest needle that its end of that length ends with. 0: none. A mark other than a needle
 * takes the answer of a search in it, which passes shorter marks only: at most as many inside of
 * each other as a search has steps. */
static uint32_t lengths_best_at(const struct mask_lengths_maker *k, uint32_t at)
{
	uint32_t low = k->slot->lengths, high = low + k->slot->nlengths, best = 0;
	struct mask_mark *mark = lengths_mark_at(k, at);

	if (mark->settled || mark->best != 0)
		return mark->best;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2, found;

		if (middle >= at || lengths_mark_at(k, middle)->units == 0) {
			high = middle;
			continue;
		}
		found = lengths_best_at(k, middle);
		best = found != 0 ? found : best;
		low = middle + 1;
	}
	mark->settled = true;
	mark->best = best;
	return best;
}

static void lengths_settle_marks(const struct mask_lengths_maker *k)
{
	uint32_t low = k->slot->lengths, high = low + k->slot->nlengths;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (k->m->lengths[middle].units > k->units) {
			high = middle;
			continue;
		}
		(void)lengths_best_at(k, middle);
		low = middle + 1;
	}
}

/* ---- all of them */

static size_t lengths_depth(size_t n)
{
	size_t steps = 0;

	for (; n > 0; n /= 2)
		steps++;
	return steps;
}

static int lengths_make_room(struct mask *m, size_t most)
{
	m->nmarks = 4;
	m->marks_shift = 62;
	while (m->nmarks < 2 * most) {
		m->nmarks *= 2;
		m->marks_shift--;
	}
	m->marks = calloc(m->nmarks, sizeof(m->marks[0]));
	return m->marks == NULL ? -1 : 0;
}

/* Marks of all needles first: those of one may be on the way of another. */
static void lengths_make_marks(struct mask_lengths_maker *k, const struct mask_slot *slot)
{
	for (uint32_t i = slot->first; i != 0; i = k->m->needles[i - 1].next) {
		lengths_begin(k, slot, &k->m->needles[i - 1]);
		lengths_put_marks(k, i);
	}
	for (uint32_t i = slot->first; i != 0; i = k->m->needles[i - 1].next) {
		lengths_begin(k, slot, &k->m->needles[i - 1]);
		lengths_settle_marks(k);
	}
}

static void lengths_each_slot(struct mask *m, void (*see)(struct mask_slot *slot, void *arg),
			      void *arg)
{
	for (size_t i = 0; i < m->nwindows; i++)
		for (size_t k = 0; k < m->windows[i].n; k++)
			if (m->windows[i].slots[k].first != 0)
				see(&m->windows[i].slots[k], arg);
}

static void lengths_see_lengths(struct mask_slot *slot, void *arg)
{
	struct mask *m = arg;

	lengths_take_lengths(m, slot);
	for (uint32_t i = slot->first; i != 0; i = m->needles[i - 1].next)
		m->nmarks += lengths_depth(slot->nlengths);
}

static void lengths_see_marks(struct mask_slot *slot, void *arg)
{
	lengths_make_marks(arg, slot);
}

int mask_lengths_make(struct mask *m)
{
	struct mask_lengths_maker *k;

	if (m->n == 0)
		return 0;
	m->lengths = calloc(m->n, sizeof(m->lengths[0]));
	if (m->lengths == NULL)
		return -1;
	lengths_each_slot(m, lengths_see_lengths, m);
	k = calloc(1, sizeof(*k));
	if (k == NULL || lengths_make_room(m, m->nmarks) < 0) {
		free(k);
		return -1;
	}
	k->m = m;
	lengths_each_slot(m, lengths_see_marks, k);
	explicit_bzero(k, sizeof(*k));
	free(k);
	return 0;
}
