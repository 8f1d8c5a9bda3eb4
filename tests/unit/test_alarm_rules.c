/* Rules of alarms: lines of rows, and the operator's setting. */
#include "lib/policy/alarm_rules.h"

#include "support.h"

static void lines_come_back(void)
{
	char text[ALARM_RULES_TEXT_MAX];
	struct alarm_rule rule, again;
	enum alarm_kind kind;
	const char *at = text;
	size_t n = 0;

	for (unsigned i = 0; i < ALARM_KINDS; i++) {
		rule = (struct alarm_rule){ alarm_kinds[i].max, i % ALARM_SEVERITIES,
					    i % ALARM_ACTIONS };
		n += alarm_rule_line((enum alarm_kind)i, &rule, text + n, sizeof(text) - n);
	}
	CHECK(n < sizeof(text)); /* all kinds at their longest */
	for (unsigned i = 0; i < ALARM_KINDS; i++) {
		CHECK(alarm_rule_next(&at, &kind, &again));
		CHECK(kind == i && again.threshold == alarm_kinds[i].max &&
		      again.severity == i % ALARM_SEVERITIES && again.action == i % ALARM_ACTIONS);
	}
	CHECK(!alarm_rule_next(&at, &kind, &again));
}

/* A row of another version: what it does not know is as usual. */
static void other_lines_are_left_out(void)
{
	const char *at =
		"package\nforks\t1\tinfo\tend\npackage\t-1\tinfo\tend\npackage\t1\tloud\tend\n"
		"package\t1\tinfo\tkill\npackage\t99999999999999999999\tinfo\tend\n"
		"package\t1x\tinfo\tend\npackage\t\tinfo\tend\n\n"
		"package\t3\tinfo\tend\n"
		"memory_jump\t101\tinfo\tend\nmemory_jump\t100\tcritical\tpause";
	struct alarm_rule rule;
	enum alarm_kind kind;

	CHECK(alarm_rule_next(&at, &kind, &rule));
	CHECK(kind == ALARM_PACKAGE && rule.threshold == 3 && rule.action == ALARM_DO_END);
	CHECK(alarm_rule_next(&at, &kind, &rule));
	CHECK(kind == ALARM_MEMORY_JUMP && rule.threshold == 100 &&
	      rule.severity == ALARM_CRITICAL && rule.action == ALARM_DO_PAUSE);
	CHECK(!alarm_rule_next(&at, &kind, &rule));
}

static void settings(void)
{
	static const char *const bad[] = { "package", "package=",     "package=kill",
					   "=end",    "packages=end", "package:end",
					   ",",	      "package=end,x" };
	enum alarm_action least[ALARM_KINDS];
	struct err e;

	CHECK(alarm_rules_setting("", least, &e) == 0 && least[ALARM_PACKAGE] == ALARM_DO_NONE);
	CHECK(alarm_rules_setting("package=end,fork_burst=pause,memory_jump=none", least, &e) == 0);
	CHECK(least[ALARM_PACKAGE] == ALARM_DO_END && least[ALARM_FORK_BURST] == ALARM_DO_PAUSE &&
	      least[ALARM_MEMORY_JUMP] == ALARM_DO_NONE &&
	      least[ALARM_ESCAPE_ATTEMPT] == ALARM_DO_NONE);
	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK(alarm_rules_setting(bad[i], least, &e) < 0);
		CHECK_HAS(bad[i], e.msg, "KIND=ACTION");
	}
}

static void stricter_rules(void)
{
	static const struct {
		struct alarm_rule rule, by, want;
	} rows[] = {
		{ { 50, ALARM_INFO, ALARM_DO_END },
		  { 20, ALARM_INFO, ALARM_DO_NONE },
		  { 20, ALARM_INFO, ALARM_DO_END } },
		{ { 20, ALARM_CRITICAL, ALARM_DO_NONE },
		  { 50, ALARM_INFO, ALARM_DO_PAUSE },
		  { 20, ALARM_CRITICAL, ALARM_DO_PAUSE } },
		{ { 0, ALARM_INFO, ALARM_DO_NONE },
		  { 50, ALARM_WARNING, ALARM_DO_NONE },
		  { 50, ALARM_WARNING, ALARM_DO_NONE } }, /* 0: never */
		{ { 7, ALARM_INFO, ALARM_DO_NONE },
		  { 0, ALARM_INFO, ALARM_DO_NONE },
		  { 7, ALARM_INFO, ALARM_DO_NONE } },
		{ { 0, ALARM_INFO, ALARM_DO_NONE },
		  { 0, ALARM_INFO, ALARM_DO_NONE },
		  { 0, ALARM_INFO, ALARM_DO_NONE } },
	};
	struct alarm_rule_set set = { .given = { false } }, by = { .given = { false } };

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct alarm_rule r = rows[i].rule;

		alarm_rule_tighten(&r, &rows[i].by);
		CHECK(r.threshold == rows[i].want.threshold &&
		      r.severity == rows[i].want.severity && r.action == rows[i].want.action);
	}
	by.given[ALARM_PACKAGE] = true;
	by.rules[ALARM_PACKAGE] = rows[0].by;
	set.given[ALARM_FORK_BURST] = true;
	set.rules[ALARM_FORK_BURST] = rows[0].rule;
	alarm_rules_tighten(&set, &by);
	CHECK(set.given[ALARM_PACKAGE] && set.rules[ALARM_PACKAGE].threshold == 20);
	CHECK(set.given[ALARM_FORK_BURST] && set.rules[ALARM_FORK_BURST].threshold == 50);
	CHECK(!set.given[ALARM_MEMORY_JUMP]);
}

TEST_MAIN({ "lines of every kind come back", lines_come_back },
	  { "lines that are not understood are left out", other_lines_are_left_out },
	  { "the operator's setting", settings }, { "the stricter of two rules", stricter_rules })
