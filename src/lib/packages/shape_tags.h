/* shape_tags.h - finds new destinations for npm's dist-tags whose own version is hidden: the
 * highest shown version not above it. Prereleases count only for a tag that named one. Private to
 * the shapers. package_shape.c feeds it.
 *
 * The work is linear in the number of versions. The tags are sorted once, in pieces. A shown
 * version is noted at the lowest tag not below it. At the end, each tag takes the version noted
 * below it. Constant memory for each tag. */
#pragma once

#include "lib/packages/facts_table.h"
#include "lib/packages/semver.h"

struct shape_tags {
	const struct facts_table *table; /* borrowed */
	struct shape_tag {
		struct semver version;
		uint32_t release, any; /* the fact it leads to, FACTS_NONE: none */
	} * tags;		       /* owned, in the order of the document */
	uint32_t *order;	       /* owned: their places, in the order of their versions */
	size_t n;
	bool compared; /* a shown version has an order */
	/* While sorting: the number of tags read, and the current merge of two runs of `width`
	 * tags, beginning at `from`. */
	size_t nread, width, from, left, right, to;
	uint32_t *merged; /* owned, becomes order with each pass */
};

int shape_tags_init(struct shape_tags *t, const struct facts_table *table) MUST_USE;
void shape_tags_release(struct shape_tags *t);
/* Take some steps of reading and sorting tags. True: all is done. */
bool shape_tags_sort(struct shape_tags *t, size_t steps);
size_t shape_tags_memory(const struct shape_tags *t);
/* Note a shown fact. This and the functions below may be called after shape_tags_sort(). */
void shape_tags_note(struct shape_tags *t, uint32_t fact);
/* End the noting: all shown facts were noted. */
void shape_tags_end(struct shape_tags *t);
/* Find the destination of a tag with this version. FACTS_NONE: none. False: versions cannot be
 * compared. */
bool shape_tags_find(const struct shape_tags *t, const char *version, uint32_t *ret);
