/* template_ref.h - names of templates that builds make: as template_name.h has them, but as E2B's
 * clients may write them: without a dot in the name. Pure. */
#pragma once

#include "daemon/template/template_name.h"

#define TEMPLATE_REF_TAG_DEFAULT "default"

/* ERR_INVALID: "Invalid name: ..." or "Invalid tag: ...". */
int template_ref_read(const char *text, struct template_name *ret, struct err *e) MUST_USE;
/* A tag alone, in canonical form. A UUID is none: it would look like the id of a build. */
int template_ref_tag(const char *text, char ret[STORE_NAME_MAX], struct err *e) MUST_USE;
/* Eight, four, four, four and twelve hex digits with dashes, in lower case. */
bool template_ref_is_uuid(const char *text);
