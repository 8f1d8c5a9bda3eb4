/* alarm_rules.h - the kinds of alarms of a session, and the rule of each: from which number on it
 * is raised, its severity, and the action. doc/traces.md has the same table, which a test compares.
 *
 * Called by alarm.c, which raises alarms, by front/web/spec_alarms.c, which reads a client's rules,
 * and by policy_alarms.c, which reads and merges those of network policies. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

enum alarm_kind {
	ALARM_FORK_BURST,
	ALARM_MEMORY_JUMP,
	ALARM_OUTPUT_FLOOD,
	ALARM_REFUSED_NAMES,
	ALARM_REFUSED_HOSTS,
	ALARM_PACKAGE,
	ALARM_CELL_FAULT,
	ALARM_REFUSED_CALLS,
	ALARM_ESCAPE_ATTEMPT,
	ALARM_KINDS
};

enum alarm_severity { ALARM_INFO, ALARM_WARNING, ALARM_CRITICAL, ALARM_SEVERITIES };
/* In order: of two rules the later action is in force. */
enum alarm_action { ALARM_DO_NONE, ALARM_DO_PAUSE, ALARM_DO_END, ALARM_ACTIONS };

struct alarm_rule {
	uint64_t threshold; /* raised at this number. 0: never */
	enum alarm_severity severity;
	enum alarm_action action;
};

/* Rules of some kinds. */
struct alarm_rule_set {
	struct alarm_rule rules[ALARM_KINDS];
	bool given[ALARM_KINDS];
};

struct alarm_kind_info {
	const char *name;
	struct alarm_rule usual;
	uint64_t max;	  /* of the threshold */
	const char *ends; /* why a session has ended by it: a text for clients */
};

#define ALARM_RULES_TEXT_MAX 1024 /* a row's text, with NUL: every kind once */

extern const struct alarm_kind_info alarm_kinds[ALARM_KINDS];
extern const char *const alarm_severities[ALARM_SEVERITIES];
extern const char *const alarm_actions[ALARM_ACTIONS];

/* The usual rules. */
void alarm_rules_usual(struct alarm_rule ret[ALARM_KINDS]);

/* Make a rule at least as strict as another one: the lower threshold, the higher severity, the
 * stronger action. */
void alarm_rule_tighten(struct alarm_rule *r, const struct alarm_rule *by);
/* The same for each kind that is given in by. A kind that is not given in s becomes that of by. */
void alarm_rules_tighten(struct alarm_rule_set *s, const struct alarm_rule_set *by);

/* A rule as a line of a session's row: "kind TAB threshold TAB severity TAB action". Return its
 * length without NUL. */
size_t alarm_rule_line(enum alarm_kind kind, const struct alarm_rule *r, char *ret, size_t cap);

/* The next rule of such lines, in any order. False at the end. Skip a line that it cannot read. */
bool alarm_rule_next(const char **lines, enum alarm_kind *ret_kind, struct alarm_rule *ret);

/* The operator's setting: "KIND=ACTION,...". The actions that a session's own rules cannot weaken.
 * ERR_INVALID names the word. */
int alarm_rules_setting(const char *text, enum alarm_action ret[ALARM_KINDS],
			struct err *e) MUST_USE;
