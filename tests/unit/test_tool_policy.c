/* Goal: tools of an MCP server are allowed and refused as its rules say, and a definition that
 * changes after it was first seen is noticed. */
#include "front/mcpservers/tool_policy.h"

#include "support.h"

static struct json_value read_text(const char *text)
{
	struct json_value v;
	struct err e;

	CHECK(json_read(text, strlen(text), 8, &v, &e) == 0);
	return v;
}

static struct tool_policy policy(const char *text)
{
	struct tool_policy p;
	struct err e;

	CHECK(tool_policy_read(read_text(text), &p, &e) == 0);
	return p;
}

static bool allows(const char *text, const char *tool, const char *want_rule)
{
	struct tool_policy p = policy(text);
	char rule[TOOL_POLICY_WORD_MAX];
	bool allowed = tool_policy_allows(&p, tool, rule);

	CHECK_STR(rule, want_rule);
	return allowed;
}

static void rules_decide(void)
{
	CHECK(allows("{}", "a", "default"));
	CHECK(allows("{\"deny\":[\"b*\"]}", "a", "default"));
	CHECK(!allows("{\"deny\":[\"x\",\"b*\"]}", "bc", "deny b*"));
	CHECK(allows("{\"allow\":[\"a*c\"]}", "abc", "allow a*c"));
	CHECK(!allows("{\"allow\":[\"a*c\"]}", "abd", "allow (not named)"));
	CHECK(!allows("{\"allow\":[]}", "a", "allow (not named)"));
	CHECK(!allows("{\"allow\":[\"*\"],\"deny\":[\"*\"]}", "a", "deny *"));
	CHECK(!allows("{\"deny\":[\"A\"],\"allow\":[\"a\"]}", "A", "deny A"));
	CHECK(!allows("{\"allow\":[\"read\"]}", "read_secret", "allow (not named)"));
}

static void malformed_rules_are_refused(void)
{
	static const char *const bad[] = { "[]",
					   "{\"allow\":1}",
					   "{\"allow\":[1]}",
					   "{\"deny\":[\"a b\"]}",
					   "{\"deny\":[\"\"]}",
					   "{\"denied\":[]}",
					   "{\"allow\":[],\"allow\":[\"*\"]}",
					   "{\"deny\":[\"a\"],\"deny\":[]}",
					   "{\"deny\":[\"\\u0061\"]}",
					   "{\"den\\u0079\":[\"a\"]}" };
	struct tool_policy p;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(tool_policy_read(read_text(bad[i]), &p, &e) < 0);
}

static struct tool_list list(const char *text)
{
	struct tool_list l = { 0 };
	struct err e;

	CHECK(tool_list_add(&l, read_text(text), &e) == 0);
	return l;
}

static size_t see(struct tool_pins *p, const char *text, bool keep, const char *want_names)
{
	char names[TOOL_PINS_NAMED];
	struct tool_list l = list(text);
	size_t n = tool_pins_see(p, &l, keep, names);

	tool_list_clear(&l);
	CHECK_STR(names, want_names);
	return n;
}

#define FIRST "[{\"name\":\"b\",\"description\":\"1\"},{\"name\":\"a\"}]"
#define OTHER "[{\"name\":\"b\",\"description\":\"2\"},{\"name\":\"c\"}]"

static void changes_are_noticed(void)
{
	struct tool_pins p = { 0 };

	CHECK(see(&p, FIRST, true, "") == 0);
	CHECK(see(&p, FIRST, true, "") == 0 && !tool_pins_changed(&p, "b"));
	CHECK(tool_pins_changed(&p, "never seen"));
	CHECK(see(&p, OTHER, true, "b") == 1);
	CHECK(see(&p, OTHER, true, "") == 0); /* once */
	CHECK(tool_pins_changed(&p, "b") && !tool_pins_changed(&p, "a"));
	CHECK(!tool_pins_changed(&p, "c"));
	CHECK(see(&p, FIRST, true, "") == 0 && !tool_pins_changed(&p, "b"));
	tool_pins_release(&p);
}

static void without_keep_the_new_definition_counts(void)
{
	struct tool_pins p = { 0 };

	CHECK(see(&p, FIRST, false, "") == 0);
	CHECK(see(&p, OTHER, false, "b") == 1 && !tool_pins_changed(&p, "b"));
	CHECK(see(&p, OTHER, false, "") == 0);
	CHECK(see(&p, FIRST, false, "b") == 1);
	tool_pins_release(&p);
}

static void pins_are_bounded(void)
{
	struct tool_pins p = { 0 };
	char text[100];

	for (unsigned i = 0; i < TOOL_PINS_MAX + 100; i++) {
		(void)snprintf(text, sizeof(text), "[{\"name\":\"t%u\"}]", i);
		CHECK(see(&p, text, true, "") == 0);
	}
	CHECK(p.n == TOOL_PINS_MAX && !tool_pins_changed(&p, "t0"));
	CHECK(tool_pins_changed(&p, "t2099")); /* there was no room: refused if strict */
	tool_pins_release(&p);
}

TEST_MAIN({ "rules_decide", rules_decide },
	  { "malformed_rules_are_refused", malformed_rules_are_refused },
	  { "changes_are_noticed", changes_are_noticed },
	  { "without_keep_the_new_definition_counts", without_keep_the_new_definition_counts },
	  { "pins_are_bounded", pins_are_bounded })
