/* policy_alarms.c - the member "alarms" of a policy: rules of alarms (alarm_rules.h). A layer that
 * names a kind gives a whole rule: absent members are those of the usual rule. Of several layers
 * with a kind the lowest threshold, the highest severity and the strongest action hold. So a lower
 * layer can make a rule stricter and cannot make it looser.
 *
 * cordond acts on them (daemon/alarms). cordon-egress checks the member and does not use it. */
#include "lib/policy/policy_private.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "{\"alarms\":";

static int read_rule(const json_t *v, enum alarm_kind kind, struct alarm_rule *ret, struct err *e)
{
	static const char *const names[] = { "threshold", "severity", "action" };
	const json_t *threshold = json_object_get(v, "threshold");
	const uint64_t max = alarm_kinds[kind].max;
	char at[64];
	size_t severity, action;

	*ret = alarm_kinds[kind].usual;
	severity = ret->severity;
	action = ret->action;
	(void)snprintf(at, sizeof(at), "alarms.%s", alarm_kinds[kind].name);
	if (policy_value_known(v, names, COUNT(names), at, e) < 0 ||
	    policy_value_word(json_object_get(v, "severity"), alarm_severities, ALARM_SEVERITIES,
			      at, "severity", &severity, e) < 0 ||
	    policy_value_word(json_object_get(v, "action"), alarm_actions, ALARM_ACTIONS, at,
			      "action", &action, e) < 0)
		return -1;
	if (threshold != NULL) {
		if (!json_is_integer(threshold) || json_integer_value(threshold) < 0 ||
		    (uint64_t)json_integer_value(threshold) > max)
			return policy_value_fail(e, at, "threshold",
						 "must be a whole number from 0 to %llu",
						 (unsigned long long)max);
		ret->threshold = (uint64_t)json_integer_value(threshold);
	}
	ret->severity = (enum alarm_severity)severity;
	ret->action = (enum alarm_action)action;
	return 0;
}

int policy_alarms_read(const json_t *v, struct alarm_rule_set *ret, struct err *e)
{
	const char *names[ALARM_KINDS];

	*ret = (struct alarm_rule_set){ .given = { false } };
	if (v == NULL)
		return 0;
	for (size_t i = 0; i < ALARM_KINDS; i++)
		names[i] = alarm_kinds[i].name;
	if (policy_value_known(v, names, ALARM_KINDS, "alarms", e) < 0)
		return -1;
	for (size_t i = 0; i < ALARM_KINDS; i++) {
		const json_t *rule = json_object_get(v, names[i]);

		if (rule == NULL)
			continue;
		if (read_rule(rule, (enum alarm_kind)i, &ret->rules[i], e) < 0)
			return -1;
		ret->given[i] = true;
	}
	return 0;
}

static int write_rule(json_t *alarms, enum alarm_kind kind, const struct alarm_rule *r)
{
	return json_object_set_new(
		alarms, alarm_kinds[kind].name,
		json_pack("{s:I, s:s, s:s}", "threshold", (json_int_t)r->threshold, "severity",
			  alarm_severities[r->severity], "action", alarm_actions[r->action]));
}

int policy_alarms_merge(json_t *root, const json_t *from)
{
	const json_t *of_layer = json_object_get(from, "alarms");
	struct alarm_rule_set all, layer;
	json_t *alarms;
	struct err e;

	if (of_layer == NULL)
		return 0;
	/* Both were checked. */
	if (policy_alarms_read(json_object_get(root, "alarms"), &all, &e) < 0 ||
	    policy_alarms_read(of_layer, &layer, &e) < 0)
		return -1;
	alarm_rules_tighten(&all, &layer);
	alarms = json_object();
	if (json_object_set_new(root, "alarms", alarms) < 0)
		return -1;
	for (size_t i = 0; i < ALARM_KINDS; i++)
		if (all.given[i] && write_rule(alarms, (enum alarm_kind)i, &all.rules[i]) < 0)
			return -1;
	return 0;
}

const struct alarm_rule_set *policy_alarms(const struct policy *p)
{
	return &p->alarms;
}

void policy_alarms_of(const char *document, struct alarm_rule_set *ret)
{
	OWN_POLICY_JSON *v = NULL;
	struct err e;

	*ret = (struct alarm_rule_set){ .given = { false } };
	if (strncmp(document, prefix, strlen(prefix)) != 0)
		return;
	v = json_loads(document + strlen(prefix), JSON_DISABLE_EOF_CHECK, NULL);
	/* The document was checked when it was set. A kind of another version is left out, and with
	 * it the others: a document is read as a whole or not at all. */
	if (v == NULL || policy_alarms_read(v, ret, &e) < 0)
		*ret = (struct alarm_rule_set){ .given = { false } };
}
