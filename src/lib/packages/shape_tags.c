#include "lib/packages/shape_tags.h"

#include <stdlib.h>

/* -1: out of memory. shape_tags_release() is right in both cases. */
int shape_tags_init(struct shape_tags *t, const struct facts_table *table)
{
	*t = (struct shape_tags){ .table = table, .width = 1 };
	t->tags = calloc(table->ntags + 1, sizeof(t->tags[0]));
	t->order = calloc(table->ntags + 1, sizeof(t->order[0]));
	t->merged = calloc(table->ntags + 1, sizeof(t->merged[0]));
	return t->tags == NULL || t->order == NULL || t->merged == NULL ? -1 : 0;
}

void shape_tags_release(struct shape_tags *t)
{
	free(t->tags);
	free(t->order);
	free(t->merged);
}

size_t shape_tags_memory(const struct shape_tags *t)
{
	return t->table == NULL ? 0
				: t->table->ntags * (sizeof(t->tags[0]) + sizeof(t->order[0]) +
						     sizeof(t->merged[0]));
}

/* ---- sorting: merges of runs, bottom up */

/* A tag whose version has no order is left out of the sorted list. */
static void read_one(struct shape_tags *t)
{
	struct shape_tag *tag = &t->tags[t->n];
	const char *version = facts_text(t->table, t->table->tags[t->nread++].version);

	tag->release = tag->any = FACTS_NONE;
	if (!semver_read(version, &tag->version))
		return;
	t->order[t->n] = (uint32_t)t->n;
	t->n++;
}

static size_t shape_tags_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Take the next tag of the two runs that begin at t->from. */
static void merge_one(struct shape_tags *t)
{
	size_t mid = shape_tags_least(t->from + t->width, t->n),
	       end = shape_tags_least(mid + t->width, t->n);
	bool is_left = t->right == end ||
		       (t->left < mid && semver_compare(&t->tags[t->order[t->left]].version,
							&t->tags[t->order[t->right]].version) <= 0);

	t->merged[t->to++] = t->order[is_left ? t->left++ : t->right++];
	if (t->to < end)
		return;
	t->from = t->left = end;
	t->right = shape_tags_least(end + t->width, t->n);
}

/* All runs of this width were merged: begin with runs twice as wide. */
static void end_pass(struct shape_tags *t)
{
	uint32_t *order = t->merged;

	t->merged = t->order;
	t->order = order;
	t->width *= 2;
	t->from = t->left = t->to = 0;
	t->right = shape_tags_least(t->width, t->n);
}

bool shape_tags_sort(struct shape_tags *t, size_t steps)
{
	for (; steps > 0 && t->nread < t->table->ntags; steps--) {
		read_one(t);
		t->right = shape_tags_least(t->width, t->n);
	}
	for (; steps > 0 && t->nread == t->table->ntags && t->width < t->n; steps--) {
		merge_one(t);
		if (t->to == t->n)
			end_pass(t);
	}
	return t->nread == t->table->ntags && t->width >= t->n;
}

/* ---- destinations of tags */

static struct shape_tag *tag_at(const struct shape_tags *t, size_t place)
{
	return &t->tags[t->order[place]];
}

/* The lowest tag not below the version. n: none. */
static size_t place_of(const struct shape_tags *t, const struct semver *version)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (semver_compare(&tag_at(t, mid)->version, version) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Keep the higher version. Among versions that differ only in their build, keep the one released
 * last. */
static void keep_higher(const struct shape_tags *t, uint32_t *best, uint32_t fact)
{
	const struct fact *facts = t->table->facts;
	struct semver a, b;
	int order;

	if (*best == FACTS_NONE) {
		*best = fact;
		return;
	}
	if (!semver_read(facts_text(t->table, facts[fact].version), &a) ||
	    !semver_read(facts_text(t->table, facts[*best].version), &b))
		return;
	order = semver_compare(&a, &b);
	if (order > 0 || (order == 0 && facts[fact].time_ms >= facts[*best].time_ms))
		*best = fact;
}

void shape_tags_note(struct shape_tags *t, uint32_t fact)
{
	struct semver version;
	size_t at;

	if (t->n == 0 ||
	    !semver_read(facts_text(t->table, t->table->facts[fact].version), &version))
		return;
	t->compared = true;
	at = place_of(t, &version);
	if (at == t->n)
		return;
	keep_higher(t, &tag_at(t, at)->any, fact);
	if (version.npre == 0)
		keep_higher(t, &tag_at(t, at)->release, fact);
}

/* Each tag without a version of its own takes the one noted below it. */
void shape_tags_end(struct shape_tags *t)
{
	for (size_t i = 1; i < t->n; i++) {
		struct shape_tag *tag = tag_at(t, i), *below = tag_at(t, i - 1);

		if (tag->any == FACTS_NONE)
			tag->any = below->any;
		if (tag->release == FACTS_NONE)
			tag->release = below->release;
	}
}

/* A tag that named a release never moves to a prerelease. */
bool shape_tags_find(const struct shape_tags *t, const char *version, uint32_t *ret)
{
	struct semver wanted;
	size_t at;

	if (!t->compared || !semver_read(version, &wanted))
		return false;
	at = place_of(t, &wanted);
	*ret = FACTS_NONE;
	if (at < t->n && semver_compare(&tag_at(t, at)->version, &wanted) == 0)
		*ret = wanted.npre > 0 ? tag_at(t, at)->any : tag_at(t, at)->release;
	return true;
}
