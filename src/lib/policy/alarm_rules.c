/* alarm_rules.c - see alarm_rules.h. */
#include "lib/policy/alarm_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"

#define MIB (1ULL << 20)
#define TIB (1ULL << 40)
#define MANY 1000000ULL

/* clang-format off */
const struct alarm_kind_info alarm_kinds[ALARM_KINDS] = {
	[ALARM_FORK_BURST] = { "fork_burst", { 200, ALARM_WARNING, ALARM_DO_NONE }, MANY,
		"alarm fork_burst: many processes began in a few seconds" },
	[ALARM_MEMORY_JUMP] = { "memory_jump", { 75, ALARM_INFO, ALARM_DO_NONE }, 100,
		"alarm memory_jump: its memory grew by most of its limit in a few seconds" },
	[ALARM_OUTPUT_FLOOD] = { "output_flood", { 64 * MIB, ALARM_INFO, ALARM_DO_NONE }, TIB,
		"alarm output_flood: its programs wrote too much output in a few seconds" },
	[ALARM_REFUSED_NAMES] = { "refused_names", { 64, ALARM_WARNING, ALARM_DO_NONE }, 1024,
		"alarm refused_names: it asked for many names that are refused or very long" },
	[ALARM_REFUSED_HOSTS] = { "refused_hosts", { 32, ALARM_WARNING, ALARM_DO_NONE }, 1024,
		"alarm refused_hosts: it tried to reach many hosts that are refused" },
	[ALARM_PACKAGE] = { "package", { 1, ALARM_WARNING, ALARM_DO_NONE }, MANY,
		"alarm package: it asked for a package that is known to be bad" },
	[ALARM_CELL_FAULT] = { "cell_fault", { 1, ALARM_CRITICAL, ALARM_DO_NONE }, MANY,
		"alarm cell_fault: PID 1 of its cell, or its guest, misbehaved" },
	[ALARM_REFUSED_CALLS] = { "refused_calls", { 1000, ALARM_WARNING, ALARM_DO_NONE }, 1000 * MANY,
		"alarm refused_calls: its programs made many system calls that are refused" },
	[ALARM_ESCAPE_ATTEMPT] = { "escape_attempt", { 1, ALARM_CRITICAL, ALARM_DO_NONE }, MANY,
		"alarm escape_attempt: a program made a system call that only an escape needs" },
};
/* clang-format on */

const char *const alarm_severities[ALARM_SEVERITIES] = { "info", "warning", "critical" };
const char *const alarm_actions[ALARM_ACTIONS] = { "none", "pause", "end" };

void alarm_rules_usual(struct alarm_rule ret[ALARM_KINDS])
{
	for (size_t i = 0; i < ALARM_KINDS; i++)
		ret[i] = alarm_kinds[i].usual;
}

void alarm_rule_tighten(struct alarm_rule *r, const struct alarm_rule *by)
{
	if (by->threshold != 0 && (r->threshold == 0 || r->threshold > by->threshold))
		r->threshold = by->threshold;
	if (r->severity < by->severity)
		r->severity = by->severity;
	if (r->action < by->action)
		r->action = by->action;
}

void alarm_rules_tighten(struct alarm_rule_set *s, const struct alarm_rule_set *by)
{
	for (size_t i = 0; i < ALARM_KINDS; i++) {
		if (!by->given[i])
			continue;
		if (s->given[i])
			alarm_rule_tighten(&s->rules[i], &by->rules[i]);
		else
			s->rules[i] = by->rules[i];
		s->given[i] = true;
	}
}

size_t alarm_rule_line(enum alarm_kind kind, const struct alarm_rule *r, char *ret, size_t cap)
{
	int n = snprintf(ret, cap, "%s\t%llu\t%s\t%s\n", alarm_kinds[kind].name,
			 (unsigned long long)r->threshold, alarm_severities[r->severity],
			 alarm_actions[r->action]);

	return n < 0 ? 0 : (size_t)n;
}

/* The place of a word of n bytes among names, count if it is none. */
static unsigned place_of(const char *word, size_t n, const char *const *names, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (strlen(names[i]) == n && memcmp(names[i], word, n) == 0)
			return i;
	return count;
}

static enum alarm_kind kind_of(const char *word, size_t n)
{
	for (unsigned i = 0; i < ALARM_KINDS; i++)
		if (strlen(alarm_kinds[i].name) == n && memcmp(alarm_kinds[i].name, word, n) == 0)
			return (enum alarm_kind)i;
	return ALARM_KINDS;
}

/* One line without its end. */
static bool read_line(char *line, enum alarm_kind *ret_kind, struct alarm_rule *ret)
{
	const char *kind = strsep(&line, "\t"), *number = strsep(&line, "\t");
	const char *severity = strsep(&line, "\t"), *action = line;
	char *end = NULL;
	unsigned s, a;

	if (number == NULL || severity == NULL || action == NULL || number[0] < '0' ||
	    number[0] > '9')
		return false;
	*ret_kind = kind_of(kind, strlen(kind));
	s = place_of(severity, strlen(severity), alarm_severities, ALARM_SEVERITIES);
	a = place_of(action, strlen(action), alarm_actions, ALARM_ACTIONS);
	ret->threshold = strtoull(number, &end, 10);
	if (*ret_kind == ALARM_KINDS || s == ALARM_SEVERITIES || a == ALARM_ACTIONS ||
	    *end != '\0' || ret->threshold > alarm_kinds[*ret_kind].max)
		return false;
	ret->severity = (enum alarm_severity)s;
	ret->action = (enum alarm_action)a;
	return true;
}

bool alarm_rule_next(const char **lines, enum alarm_kind *ret_kind, struct alarm_rule *ret)
{
	char line[96];

	while (**lines != '\0') {
		const char *at = *lines;
		size_t n = strcspn(at, "\n");

		*lines += n + (at[n] == '\n');
		if (n >= sizeof(line))
			continue;
		memcpy(line, at, n);
		line[n] = '\0';
		if (read_line(line, ret_kind, ret))
			return true;
	}
	return false;
}

int alarm_rules_setting(const char *text, enum alarm_action ret[ALARM_KINDS], struct err *e)
{
	for (size_t i = 0; i < ALARM_KINDS; i++)
		ret[i] = ALARM_DO_NONE;
	while (*text != '\0') {
		size_t n = strcspn(text, ","), name = strcspn(text, "=,");
		enum alarm_kind kind = kind_of(text, name);
		unsigned action = ALARM_ACTIONS;

		if (name < n)
			action = place_of(text + name + 1, n - name - 1, alarm_actions,
					  ALARM_ACTIONS);
		if (kind == ALARM_KINDS || action == ALARM_ACTIONS)
			return err_set(
				e, ERR_INVALID,
				"alarms: %.*s is not KIND=ACTION: an action is none, pause or "
				"end, and doc/traces.md has the kinds",
				(int)(n < 60 ? n : 60), text);
		ret[kind] = (enum alarm_action)action;
		text += n + (text[n] == ',');
	}
	return 0;
}
