/* template_view.h - a template as JSON. */
#pragma once

#include "json.h"
#include "templates.h"

/* Writes an object. is_operator: with how much it is used, which tenants do not see of others. */
void template_view(struct json *j, const struct core *c, const struct template_version *v,
		   bool is_operator);
