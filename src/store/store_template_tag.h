/* store_template_tag.h - tags: names of versions of a template. See store.h for what holds for all
 * rows.
 *
 * A tag belongs to a template (store_template.template_id) and means one of its versions. The tag
 * "default" has no row here: it means the version that is current (store_template.h). A version
 * with a tag is kept. */
#pragma once

#include "store_template.h"

#define STORE_TAG_DEFAULT "default"

struct store_template_tag {
	char template_id[STORE_TEMPLATE_ID_MAX];
	char tag[STORE_TAG_MAX];
	char version[STORE_ID_MAX]; /* store_template.id */
	uint64_t created_ms;	    /* when it got this meaning */
};

typedef int store_template_tag_fn(const struct store_template_tag *row, void *cookie);

/* The tag means this version from now on, whatever it meant before. Not for "default". */
int store_template_tag_set(struct store *s, const struct store_template_tag *row,
			   struct err *e) MUST_USE;

/* ERR_NOT_FOUND if there is no such tag. */
int store_template_tag_delete(struct store *s, const char *template_id, const char *tag,
			      struct err *e) MUST_USE;
/* All of a template; not an error if there are none. */
int store_template_tag_clear(struct store *s, const char *template_id, struct err *e) MUST_USE;

int store_template_tag_each(struct store *s, store_template_tag_fn *fn, void *cookie,
			    struct err *e) MUST_USE;
