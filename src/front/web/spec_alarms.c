/* spec_alarms.c - see spec_alarms.h. */
#include "front/web/spec_alarms.h"

#include <stdio.h>

static int read_rule(struct json_members *outer, enum alarm_kind kind, struct alarm_rule *ret,
		     bool *ret_given)
{
	json_t *object = json_members_object(outer, alarm_kinds[kind].name, JSON_MEMBERS_MAX);
	unsigned severity = alarm_kinds[kind].usual.severity;
	unsigned action = alarm_kinds[kind].usual.action;
	struct json_members m;
	char where[64];

	*ret = alarm_kinds[kind].usual;
	*ret_given = object != NULL;
	if (object == NULL)
		return 0;
	(void)snprintf(where, sizeof(where), "alarms.%s", alarm_kinds[kind].name);
	json_members_begin(&m, object, where, outer->e);
	json_members_count(&m, "threshold", 0, alarm_kinds[kind].max, &ret->threshold);
	json_members_choice(&m, "severity", alarm_severities, ALARM_SEVERITIES, &severity);
	json_members_choice(&m, "action", alarm_actions, ALARM_ACTIONS, &action);
	ret->severity = (enum alarm_severity)severity;
	ret->action = (enum alarm_action)action;
	if (json_members_end(&m) == 0)
		return 0;
	outer->failed = true;
	return -1;
}

void spec_alarms_read(struct json_members *outer, char ret[ALARM_RULES_TEXT_MAX])
{
	json_t *object = json_members_object(outer, "alarms", ALARM_KINDS);
	struct json_members m;
	size_t at = 0;

	ret[0] = '\0';
	if (object == NULL)
		return;
	json_members_begin(&m, object, "alarms", outer->e);
	for (unsigned i = 0; i < ALARM_KINDS; i++) {
		struct alarm_rule rule;
		bool given;

		if (read_rule(&m, (enum alarm_kind)i, &rule, &given) < 0)
			break;
		if (given)
			at += alarm_rule_line((enum alarm_kind)i, &rule, ret + at,
					      ALARM_RULES_TEXT_MAX - at);
	}
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

void spec_alarms_view(struct json *j, const char *lines)
{
	struct alarm_rule rule;
	enum alarm_kind kind;

	json_open(j, "alarms", '{');
	while (lines != NULL && alarm_rule_next(&lines, &kind, &rule)) {
		json_open(j, alarm_kinds[kind].name, '{');
		json_uint(j, "threshold", rule.threshold);
		json_text(j, "severity", alarm_severities[rule.severity]);
		json_text(j, "action", alarm_actions[rule.action]);
		json_close(j, '}');
	}
	json_close(j, '}');
}
