/* tool_policy.h - which tools of an MCP server may be called and are listed. Pure. Rules are names
 * with stars (policy/glob.h); what `deny` names is refused, and if there is an `allow`, so is what
 * it does not name. */
#pragma once

#include "json_read.h"

#define TOOL_POLICY_RULES 32 /* of each kind */
#define TOOL_POLICY_RULE_MAX 128

struct tool_policy {
	char allow[TOOL_POLICY_RULES][TOOL_POLICY_RULE_MAX + 1];
	char deny[TOOL_POLICY_RULES][TOOL_POLICY_RULE_MAX + 1];
	unsigned nallow, ndeny;
	bool has_allow; /* an empty one allows nothing */
};

#define TOOL_POLICY_WORD_MAX (TOOL_POLICY_RULE_MAX + 16)

/* Reads {"allow": [...], "deny": [...]}; NONE: everything is allowed. ERR_INVALID: anything else.
 */
int tool_policy_read(struct json_value v, struct tool_policy *ret, struct err *e) MUST_USE;
/* ret_rule: what decided, such as "deny delete_*", "allow *", or "default". */
bool tool_policy_allows(const struct tool_policy *p, const char *tool,
			char ret_rule[TOOL_POLICY_WORD_MAX]);
