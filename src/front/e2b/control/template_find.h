/* template_find.h - templates as E2B's clients name them, and the ids and names that they see.
 *
 * The default template is "base". Others of the operator go by their name. Those of tenants have
 * ids. A template whose first build is not ready has no version: only the rows of its builds. */
#pragma once

#include "daemon/template/templates.h"
#include "front/web/request.h"
#include "lib/json/json.h"

#define TEMPLATE_FIND_BUILD_MAX 37

/* The version that sandboxes are made from: [ns/]name[:tag] or an id, in any case. NULL: none. */
struct template_version *template_find(const struct core *c, const struct tenant *t,
				       const char *name);

/* The id of a template of the tenant's own, by name or id, with or without a version. False: there
 * is none, and the request was answered with 404, or 403 if it is another's. */
bool template_find_own(struct request *r, const char *name, char ret_id[STORE_ID_MAX]) MUST_USE;

/* Any version of a template. NULL: it has none. */
struct template_version *template_find_any(const struct core *c, const char *template_id);

/* E2B's id of a template, and of its build. */
const char *template_find_id(const struct core *c, const struct store_template *row);
int template_find_build(struct core *c, const struct store_template *row,
			char ret[TEMPLATE_FIND_BUILD_MAX], struct err *e) MUST_USE;
bool template_find_is_public(struct core *c, const char *template_id);
/* The members `names` and `aliases`. */
void template_find_shape_names(struct json *j, struct core *c, const char *tenant,
			       const char *name);
