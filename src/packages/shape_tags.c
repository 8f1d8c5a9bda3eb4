#include "shape_tags.h"

#include <stdlib.h>

static int by_version(const void *a, const void *b)
{
	return semver_compare(&((const struct shape_tag *)a)->version,
			      &((const struct shape_tag *)b)->version);
}

int shape_tags_init(struct shape_tags *t, const struct facts_table *table)
{
	t->table = table;
	t->tags = calloc(table->ntags + 1, sizeof(t->tags[0]));
	if (t->tags == NULL)
		return -1;
	for (size_t i = 0; i < table->ntags; i++) {
		struct shape_tag *tag = &t->tags[t->n];

		tag->release = tag->any = FACTS_NONE;
		t->n += semver_read(facts_text(table, table->tags[i].version), &tag->version);
	}
	qsort(t->tags, t->n, sizeof(t->tags[0]), by_version);
	return 0;
}

void shape_tags_release(struct shape_tags *t)
{
	free(t->tags);
}

/* The lowest tag that is not below the version; n: none. */
static size_t place_of(const struct shape_tags *t, const struct semver *version)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (semver_compare(&t->tags[mid].version, version) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Of versions that differ in their build only, the one that was released last. */
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
	keep_higher(t, &t->tags[at].any, fact);
	if (version.npre == 0)
		keep_higher(t, &t->tags[at].release, fact);
}

void shape_tags_end(struct shape_tags *t)
{
	for (size_t i = 1; i < t->n; i++) {
		struct shape_tag *tag = &t->tags[i];

		if (tag->any == FACTS_NONE)
			tag->any = tag[-1].any;
		if (tag->release == FACTS_NONE)
			tag->release = tag[-1].release;
	}
}

bool shape_tags_find(const struct shape_tags *t, const char *version, uint32_t *ret)
{
	struct semver wanted;
	size_t at;

	if (!t->compared || !semver_read(version, &wanted))
		return false;
	at = place_of(t, &wanted);
	*ret = FACTS_NONE;
	if (at < t->n && semver_compare(&t->tags[at].version, &wanted) == 0)
		*ret = wanted.npre > 0 ? t->tags[at].any : t->tags[at].release;
	return true;
}
