/* shape_tags.h - where npm's dist-tags lead when the version that they name is hidden: to the
 * highest version that is shown and not above it. Prereleases count only for a tag that named one.
 * Private to the shapers; package_shape.c feeds it.
 *
 * Linear in versions: the tags are sorted once, in pieces, and a version that is shown is noted at
 * the lowest tag that is not below it; at the end each tag takes what was noted below it. Constant
 * memory for each tag. */
#pragma once

#include "facts_table.h"
#include "semver.h"

struct shape_tags {
	const struct facts_table *table; /* borrowed */
	struct shape_tag {
		struct semver version;
		uint32_t release, any; /* the fact that it leads to; FACTS_NONE: none */
	} * tags;		       /* owned; in the order of the document */
	uint32_t *order;	       /* owned: their places, in the order of their versions */
	size_t n;
	bool compared; /* a version that is shown has an order */
	/* While they are sorted: tags that were read, and the merge that is under way, of two runs
	 * of `width` that begin at `from`. */
	size_t nread, width, from, left, right, to;
	uint32_t *merged; /* owned; becomes order with each pass */
};

int shape_tags_init(struct shape_tags *t, const struct facts_table *table) MUST_USE;
void shape_tags_release(struct shape_tags *t);
/* Does so many steps of reading and sorting them. True: all is done. */
bool shape_tags_sort(struct shape_tags *t, size_t steps);
size_t shape_tags_memory(const struct shape_tags *t);
/* A fact is shown. All below: after shape_tags_sort(). */
void shape_tags_note(struct shape_tags *t, uint32_t fact);
/* All were noted. */
void shape_tags_end(struct shape_tags *t);
/* Where a tag with this version leads; FACTS_NONE: nowhere. False: versions cannot be compared. */
bool shape_tags_find(const struct shape_tags *t, const char *version, uint32_t *ret);
