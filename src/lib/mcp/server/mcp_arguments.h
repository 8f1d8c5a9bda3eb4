/* mcp_arguments.h - checks the arguments of a tool against its input schema. Pure.
 *
 * For schemas of this program, not for those of other servers. It knows the keywords type (one, or
 * an array of them), properties, required, additionalProperties (absent means false here), enum (of
 * strings), minimum, maximum, minLength, maxLength, minItems, maxItems, items, oneOf/anyOf (the
 * value fits at least one). Others (description, default, title, ...) are ignored. Pattern and $ref
 * are not supported, and the check fails. */
#pragma once

#include "lib/mcp/server/mcp.h"

/* arguments may be NULL: as {}. On failure e names the member and its proper form, in words for a
 * model: to be sent as a result with isError. ERR_SYSTEM: the schema itself is bad. */
int mcp_arguments_check(const char *schema, const struct json_node *arguments,
			struct err *e) MUST_USE;
