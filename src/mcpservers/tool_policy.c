#include "tool_policy.h"

#include <stdio.h>
#include <string.h>

#include "glob.h"
#include "tool_list.h"

/* Names of tools, and stars. */
static bool is_rule(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] != '*' && !tool_name_is_valid(text + i, 1))
			return false;
	}
	return n > 0 && n <= TOOL_POLICY_RULE_MAX;
}

static int read_rules(struct json_value v, const char *what,
		      char ret[TOOL_POLICY_RULES][TOOL_POLICY_RULE_MAX + 1], unsigned *ret_n,
		      struct err *e)
{
	struct json_value none, rule;
	const char *at = NULL;

	if (v.kind != JSON_READ_ARRAY)
		return err_set(e, ERR_INVALID, "tools.%s: must be an array", what);
	while (json_read_next(v, &at, &none, &rule)) {
		if (rule.kind != JSON_READ_TEXT || !is_rule(rule.p + 1, rule.n - 2))
			return err_set(
				e, ERR_INVALID,
				"tools.%s: must have names of tools, in which '*' stands for "
				"any characters",
				what);
		if (*ret_n == TOOL_POLICY_RULES)
			return err_set(e, ERR_INVALID, "tools.%s: has more than %u", what,
				       TOOL_POLICY_RULES);
		memcpy(ret[*ret_n], rule.p + 1, rule.n - 2);
		ret[(*ret_n)++][rule.n - 2] = '\0';
	}
	return 0;
}

int tool_policy_read(struct json_value v, struct tool_policy *ret, struct err *e)
{
	struct json_value name, value;
	const char *at = NULL;

	*ret = (struct tool_policy){ 0 };
	if (v.kind == JSON_READ_NONE)
		return 0;
	if (v.kind != JSON_READ_OBJECT)
		return err_set(e, ERR_INVALID, "tools: must be an object");
	while (json_read_next(v, &at, &name, &value)) {
		int read = -1;

		if (json_read_is(name, "allow") && !ret->has_allow) {
			ret->has_allow = true;
			read = read_rules(value, "allow", ret->allow, &ret->nallow, e);
		} else if (json_read_is(name, "deny") && ret->ndeny == 0) {
			read = read_rules(value, "deny", ret->deny, &ret->ndeny, e);
		} else {
			(void)err_set(e, ERR_INVALID, "tools: has allow and deny, once each");
		}
		if (read < 0)
			return -1;
	}
	return 0;
}

static const char *find(const char rules[][TOOL_POLICY_RULE_MAX + 1], unsigned n, const char *tool)
{
	for (unsigned i = 0; i < n; i++) {
		if (glob_fits(rules[i], tool, strlen(tool), false))
			return rules[i];
	}
	return NULL;
}

bool tool_policy_allows(const struct tool_policy *p, const char *tool,
			char ret_rule[TOOL_POLICY_WORD_MAX])
{
	const char *rule = find(p->deny, p->ndeny, tool);

	if (rule != NULL) {
		(void)snprintf(ret_rule, TOOL_POLICY_WORD_MAX, "deny %s", rule);
		return false;
	}
	if (!p->has_allow) {
		(void)snprintf(ret_rule, TOOL_POLICY_WORD_MAX, "default");
		return true;
	}
	rule = find(p->allow, p->nallow, tool);
	(void)snprintf(ret_rule, TOOL_POLICY_WORD_MAX, "allow%s%s", rule == NULL ? "" : " ",
		       rule == NULL ? " (not named)" : rule);
	return rule != NULL;
}
