#include "front/mcpservers/tool_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/mcp/client/tool_list.h"
#include "lib/policy/glob.h"

/* ---- pinned tools
 *
 * A tool's hash covers its whole definition. */

/* Sorted by name: a list of a thousand tools is compared once a second at most. */
static size_t find_place(const struct tool_pins *p, const char *name, bool *ret_found)
{
	size_t from = 0, to = p->n;

	*ret_found = false;
	while (from < to && !*ret_found) {
		size_t mid = from + (to - from) / 2;
		int order = strcmp(name, p->pins[mid].name);

		*ret_found = order == 0;
		if (order == 0)
			from = mid;
		else if (order < 0)
			to = mid;
		else
			from = mid + 1;
	}
	return from;
}

/* Without room the tool stays unknown, and tool_pins_changed() says so. */
static void pins_add(struct tool_pins *p, size_t at, const char *name, const uint8_t *hash)
{
	struct tool_pin *grown;
	size_t size = p->size == 0 ? 32 : p->size * 2;

	if (p->n == TOOL_PINS_MAX)
		return;
	if (p->n == p->size) {
		grown = realloc(p->pins, size * sizeof(*grown));
		if (grown == NULL)
			return;
		p->pins = grown;
		p->size = size;
	}
	memmove(&p->pins[at + 1], &p->pins[at], (p->n - at) * sizeof(*p->pins));
	p->pins[at] = (struct tool_pin){ 0 };
	str_copy(p->pins[at].name, name);
	memcpy(p->pins[at].hash, hash, sizeof(p->pins[at].hash));
	p->n++;
}

/* Names that do not fit are left out of the report. */
static void put_name(char names[TOOL_PINS_NAMED], const char *name)
{
	size_t n = strlen(names);

	if (n + strlen(name) + 2 < TOOL_PINS_NAMED)
		(void)snprintf(names + n, TOOL_PINS_NAMED - n, "%s%s", n == 0 ? "" : " ", name);
}

size_t tool_pins_see(struct tool_pins *p, const struct tool_list *l, bool keep,
		     char ret_names[TOOL_PINS_NAMED])
{
	size_t changed = 0, at;
	bool found, differs;

	ret_names[0] = '\0';
	for (size_t i = 0; i < l->n; i++) {
		const struct listed_tool *t = &l->tools[i];

		at = find_place(p, t->name, &found);
		if (!found) {
			pins_add(p, at, t->name, t->hash);
			continue;
		}
		differs = memcmp(p->pins[at].hash, t->hash, sizeof(t->hash)) != 0;
		if (differs && !p->pins[at].changed) {
			changed++;
			put_name(ret_names, t->name);
		}
		p->pins[at].changed = differs && keep;
		if (!keep)
			memcpy(p->pins[at].hash, t->hash, sizeof(t->hash));
	}
	return changed;
}

/* A name in the store that is no tool's name is ignored. */
void tool_pins_put(struct tool_pins *p, const char *name, const uint8_t hash[SHA256_SIZE])
{
	bool found;
	size_t at = find_place(p, name, &found);

	if (!found && tool_name_is_valid(name, strlen(name))) {
		pins_add(p, at, name, hash);
		at = find_place(p, name, &found);
		if (found)
			p->pins[at].kept = true;
	}
}

bool tool_pins_changed(const struct tool_pins *p, const char *name)
{
	bool found;
	size_t at = find_place(p, name, &found);

	return !found || p->pins[at].changed;
}

void tool_pins_release(struct tool_pins *p)
{
	free(p->pins);
	*p = (struct tool_pins){ 0 };
}

/* ---- allowed tools
 *
 * deny wins over allow. */

/* Names of tools, and stars. */
static bool is_rule(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] != '*' && !tool_name_is_valid(text + i, 1))
			return false;
	}
	return n > 0 && n <= TOOL_POLICY_RULE_MAX;
}

/* v is an array of texts. Escapes cannot occur, as is_rule() refuses the backslash. */
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

/* The first rule that fits, for the record. */
static const char *policy_find(const char rules[][TOOL_POLICY_RULE_MAX + 1], unsigned n,
			       const char *tool)
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
	const char *rule = policy_find(p->deny, p->ndeny, tool);

	if (rule != NULL) {
		(void)snprintf(ret_rule, TOOL_POLICY_WORD_MAX, "deny %s", rule);
		return false;
	}
	if (!p->has_allow) {
		(void)snprintf(ret_rule, TOOL_POLICY_WORD_MAX, "default");
		return true;
	}
	rule = policy_find(p->allow, p->nallow, tool);
	(void)snprintf(ret_rule, TOOL_POLICY_WORD_MAX, "allow%s%s", rule == NULL ? "" : " ",
		       rule == NULL ? " (not named)" : rule);
	return rule != NULL;
}
