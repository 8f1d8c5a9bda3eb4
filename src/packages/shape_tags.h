/* shape_tags.h - where npm's dist-tags lead when the version that they name is hidden: to the
 * highest version that is shown and not above it. Prereleases count only for a tag that named one.
 * Private to the shapers; package_shape.c feeds it.
 *
 * Linear in versions: the tags are sorted once, and a version that is shown is noted at the lowest
 * tag that is not below it; at the end each tag takes what was noted below it. Constant memory for
 * each tag. */
#pragma once

#include "facts_table.h"
#include "semver.h"

struct shape_tags {
	const struct facts_table *table; /* borrowed */
	struct shape_tag {
		struct semver version;
		uint32_t release, any; /* the fact that it leads to; FACTS_NONE: none */
	} * tags;		       /* owned; in the order of their versions */
	size_t n;
	bool compared; /* a version that is shown has an order */
};

int shape_tags_init(struct shape_tags *t, const struct facts_table *table) MUST_USE;
void shape_tags_release(struct shape_tags *t);
/* A fact is shown. */
void shape_tags_note(struct shape_tags *t, uint32_t fact);
/* All were noted. */
void shape_tags_end(struct shape_tags *t);
/* Where a tag with this version leads; FACTS_NONE: nowhere. False: versions cannot be compared. */
bool shape_tags_find(const struct shape_tags *t, const char *version, uint32_t *ret);
