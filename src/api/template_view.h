/* template_view.h - a template as JSON. */
#pragma once

#include "json.h"
#include "templates.h"

/* Writes an object. is_operator: with how much it is used, which tenants do not see of others. In a
 * list without the environment, which may have 256 KiB: of others' public templates, too. */
void template_view_in_list(struct json *j, const struct core *c, const struct template_version *v,
			   bool is_operator);
void template_view(struct json *j, const struct core *c, const struct template_version *v,
		   bool is_operator);
