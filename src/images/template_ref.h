/* template_ref.h - the names of templates as clients write them: [NAMESPACE/]NAME[:TAG]. Pure.
 *
 * Parts are trimmed and made lower-case. A name has a-z, 0-9, '-' and '_', a tag also '.'. */
#pragma once

#include "err.h"
#include "store.h"

#define TEMPLATE_REF_TAG_DEFAULT "default"

struct template_ref {
	char space[STORE_NAME_MAX]; /* "": none */
	char name[STORE_NAME_MAX];
	char tag[STORE_NAME_MAX]; /* "": none was given */
};

/* ERR_INVALID: "Invalid name: ..." or "Invalid tag: ...". */
int template_ref_read(const char *text, struct template_ref *ret, struct err *e) MUST_USE;
/* A tag alone, in canonical form. A UUID is none: it would look like the id of a build. */
int template_ref_tag(const char *text, char ret[STORE_NAME_MAX], struct err *e) MUST_USE;
/* Eight, four, four, four and twelve hex digits with dashes, in lower case. */
bool template_ref_is_uuid(const char *text);
