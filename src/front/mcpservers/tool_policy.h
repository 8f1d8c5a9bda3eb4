/* tool_policy.h - which tools of an MCP server may be called and are listed. Pure. Rules are names
 * with stars (lib/policy/glob.h). Tools named in `deny` are refused, and so are those missing in an
 * `allow`. */
#pragma once

#include "lib/json/json_read.h"
#include "lib/mcp/client/tool_list.h"

#define TOOL_POLICY_RULES 32 /* of each kind */
#define TOOL_POLICY_RULE_MAX 128

struct tool_policy {
	char allow[TOOL_POLICY_RULES][TOOL_POLICY_RULE_MAX + 1];
	char deny[TOOL_POLICY_RULES][TOOL_POLICY_RULE_MAX + 1];
	unsigned nallow, ndeny;
	bool has_allow; /* an empty one allows nothing */
};

#define TOOL_POLICY_WORD_MAX (TOOL_POLICY_RULE_MAX + 16)

/* Read {"allow": [...], "deny": [...]}. NONE: all tools are allowed. ERR_INVALID: anything else.
 */
int tool_policy_read(struct json_value v, struct tool_policy *ret, struct err *e) MUST_USE;
/* ret_rule: what decided, such as "deny delete_*", "allow *", or "default". */
bool tool_policy_allows(const struct tool_policy *p, const char *tool,
			char ret_rule[TOOL_POLICY_WORD_MAX]);

/* ---- pinned tools
 *
 * The definitions of a server's tools as they were first seen. A server that changes
 * a description after a person has approved the tool (a "rug pull") is found by that. Pure. */

#define TOOL_PINS_MAX 2000
#define TOOL_PINS_NAMED 200 /* characters of reported names */

struct tool_pin {
	char name[TOOL_NAME_MAX + 1];
	uint8_t hash[SHA256_SIZE];
	bool changed; /* it has another definition now */
	bool kept;    /* the owner's: it is in the store */
};

struct tool_pins {
	struct tool_pin *pins; /* owned */
	size_t n, size;
};

/* Compare a list with the known tools, and add the new ones. Return how many tools have changed
 * since the last call. ret_names has some of their names. keep: a changed tool stays marked, else
 * its new definition counts from now on. */
size_t tool_pins_see(struct tool_pins *p, const struct tool_list *l, bool keep,
		     char ret_names[TOOL_PINS_NAMED]);
/* Add a tool seen before. */
void tool_pins_put(struct tool_pins *p, const char *name, const uint8_t hash[SHA256_SIZE]);
/* Has it another definition than at first, or was there no room to remember it? */
bool tool_pins_changed(const struct tool_pins *p, const char *name);
void tool_pins_release(struct tool_pins *p);
