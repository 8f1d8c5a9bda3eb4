/* alarm.c - see alarm.h. */
#include "daemon/alarms/alarm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/node/core_metrics.h"
#include "daemon/session/session_pause.h"
#include "daemon/session/session_stop.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text_hash.h"
#include "lib/policy/policy.h"

#define MINUTE_MS 60000
/* Samples are five seconds apart. A difference over a longer time says nothing about a burst. */
#define SAMPLES_APART_MS 20000
#define NAME_SHOWN 120

struct alarms_node {
	struct core *core;
	enum alarm_action least[ALARM_KINDS]; /* of the setting `alarms` */
	struct alarm_rule_set node;	      /* of the node's policy */
	struct loop_task act;
};

/* How many different texts there were in a minute. A text sets one bit, chosen by a seeded hash, so
 * no text can be made that counts as another one. Two of many set the same bit now and then, so the
 * number is a lower bound. */
struct alarm_distinct {
	uint64_t until_ns;
	unsigned n;
	uint64_t bits[64];
};

struct alarm_seen {
	struct alarm_distinct names, hosts;
};

/* Of one kind. */
struct alarm_count {
	uint64_t raised_ns;	   /* the last event. 0: none */
	uint64_t held, held_value; /* since then: how many, and the highest value */
};

struct alarms_session {
	struct alarm_rule rules[ALARM_KINDS];
	bool stale; /* a policy has changed: the rules are found again before they are used */
	struct alarm_count counts[ALARM_KINDS];
	struct session_sample last; /* time_ms 0: none */
	struct alarm_seen *seen;    /* owned. NULL: none was refused */
	enum alarm_action act;	    /* due */
	enum alarm_kind act_for;
};

static struct alarms_node *node_of(const struct session *s)
{
	return *session_parts_of_core(session_core(s), &alarms_part);
}

/* Of the policies of node, tenant and session. */
static void rules_of_policies(const struct session *s, struct alarm_rule_set *ret)
{
	const char *own = session_row(s)->policy;
	struct alarm_rule_set layer;

	*ret = node_of(s)->node;
	policy_alarms_of(tenant_policy(session_tenant(s)), &layer);
	alarm_rules_tighten(ret, &layer);
	policy_alarms_of(own == NULL ? "" : own, &layer);
	alarm_rules_tighten(ret, &layer);
}

/* A client must not take an alarm away that the operator acts on. */
static void add_setting(struct alarm_rule *r, enum alarm_kind kind, enum alarm_action least)
{
	const struct alarm_rule at_least = { .threshold = alarm_kinds[kind].usual.threshold,
					     .severity = r->severity,
					     .action = least };

	if (least != ALARM_DO_NONE)
		alarm_rule_tighten(r, &at_least);
}

static void find_rules(const struct session *s, struct alarm_rule ret[ALARM_KINDS])
{
	const char *lines = session_row(s)->alarms;
	struct alarm_rule_set own = { .given = { false } }, policies;
	struct alarm_rule rule;
	enum alarm_kind kind;

	while (lines != NULL && alarm_rule_next(&lines, &kind, &rule)) {
		own.rules[kind] = rule;
		own.given[kind] = true;
	}
	rules_of_policies(s, &policies);
	alarm_rules_tighten(&own, &policies);
	alarm_rules_usual(ret);
	for (unsigned i = 0; i < ALARM_KINDS; i++) {
		if (own.given[i])
			ret[i] = own.rules[i];
		add_setting(&ret[i], (enum alarm_kind)i, node_of(s)->least[i]);
	}
}

/* Made at the first use: most sessions of a busy node end before they are sampled. */
static struct alarms_session *state_of(struct session *s)
{
	void **at = session_parts_of(s, &alarms_part);
	struct alarms_session *a = *at;

	if (a == NULL) {
		*at = a = calloc(1, sizeof(*a));
		assert(a != NULL);
		a->stale = true;
	}
	if (a->stale)
		find_rules(s, a->rules);
	a->stale = false;
	return a;
}

void alarm_rules_changed(struct session *s)
{
	struct alarms_session *a = *session_parts_of(s, &alarms_part);

	if (a != NULL)
		a->stale = true;
}

/* ---- events */

static void write_event(struct session *s, enum alarm_kind kind, uint64_t raised, uint64_t value,
			const char *facts)
{
	const struct alarms_session *a = state_of(s);
	const struct alarm_rule *r = &a->rules[kind];
	struct err e;

	core_metrics_alarm(alarm_kinds[kind].name);
	if (event_log_append(session_core(s), NULL, session_row(s)->tenant, session_row(s)->id, "",
			     "alarm", &e,
			     "kind\t%s\nseverity\t%s\naction\t%s\nvalue\t%llu\nthreshold\t%llu\n"
			     "raised\t%llu\n%s",
			     alarm_kinds[kind].name, alarm_severities[r->severity],
			     alarm_actions[r->action], (unsigned long long)value,
			     (unsigned long long)r->threshold, (unsigned long long)raised,
			     facts) < 0)
		log_warn("event could not be written", "session_id=%s error=%s", session_row(s)->id,
			 e.msg);
	if (r->severity == ALARM_CRITICAL)
		log_warn("alarm", "session_id=%s tenant=%s kind=%s value=%llu action=%s",
			 session_row(s)->id, session_row(s)->tenant, alarm_kinds[kind].name,
			 (unsigned long long)value, alarm_actions[r->action]);
}

static bool may_raise(const struct alarm_count *n)
{
	return n->raised_ns == 0 || clock_now_ns() - n->raised_ns >= ALARM_EVERY_MS * CLOCK_MS;
}

static void raise_now(struct session *s, enum alarm_kind kind, uint64_t raised, uint64_t value,
		      const char *facts)
{
	struct alarms_session *a = state_of(s);

	a->counts[kind] = (struct alarm_count){ .raised_ns = clock_now_ns() };
	write_event(s, kind, raised, value, facts);
	if (a->rules[kind].action <= a->act)
		return;
	a->act = a->rules[kind].action;
	a->act_for = kind;
	loop_defer(core_loop(session_core(s)), &node_of(s)->act);
}

void alarm_raise(struct session *s, enum alarm_kind kind, uint64_t value, const char *facts)
{
	struct alarms_session *a = state_of(s);
	struct alarm_count *n = &a->counts[kind];

	if (a->rules[kind].threshold == 0 || value < a->rules[kind].threshold)
		return;
	if (may_raise(n)) {
		raise_now(s, kind, n->held + 1, value, facts);
		return;
	}
	n->held++;
	if (n->held_value < value)
		n->held_value = value;
}

void alarm_end(struct session *s, enum alarm_kind kind, const char *facts)
{
	struct alarms_session *a = state_of(s);

	alarm_raise(s, kind, alarm_kinds[kind].max, facts);
	a->act = ALARM_DO_END;
	a->act_for = kind;
	loop_defer(core_loop(session_core(s)), &node_of(s)->act);
}

/* ---- names and hosts */

/* Return how many different ones there were, this one included. */
static unsigned distinct_add(struct alarm_distinct *d, const char *text)
{
	uint64_t now = clock_now_ns(), bit = text_hash(text) % (64 * COUNT(d->bits));

	if (now >= d->until_ns)
		*d = (struct alarm_distinct){ .until_ns = now + MINUTE_MS * CLOCK_MS };
	if ((d->bits[bit / 64] & 1ULL << bit % 64) == 0) {
		d->bits[bit / 64] |= 1ULL << bit % 64;
		d->n++;
	}
	return d->n;
}

static struct alarm_seen *seen_of(struct session *s)
{
	struct alarms_session *a = state_of(s);

	if (a->seen == NULL)
		a->seen = calloc(1, sizeof(*a->seen));
	assert(a->seen != NULL);
	return a->seen;
}

/* A name is the cell's: nothing in it may end the line of the event. */
static void raise_named(struct session *s, enum alarm_kind kind, unsigned n, const char *name)
{
	char facts[NAME_SHOWN + 16];
	size_t at = (size_t)snprintf(facts, sizeof(facts), "last\t");

	if (n < state_of(s)->rules[kind].threshold)
		return;
	for (size_t i = 0; name[i] != '\0' && i < NAME_SHOWN; i++)
		facts[at++] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
	facts[at++] = '\n';
	facts[at] = '\0';
	session_redact(s, facts);
	alarm_raise(s, kind, n, facts);
}

void alarm_on_name(struct session *s, const char *name)
{
	raise_named(s, ALARM_REFUSED_NAMES, distinct_add(&seen_of(s)->names, name), name);
}

void alarm_on_host(struct session *s, const char *name)
{
	raise_named(s, ALARM_REFUSED_HOSTS, distinct_add(&seen_of(s)->hosts, name), name);
}

/* ---- samples */

static uint64_t alarm_grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

static void on_sampled(struct session *s, const struct session_sample *now)
{
	struct alarms_session *a = state_of(s);
	const struct session_sample before = a->last;
	uint64_t limit = session_row(s)->limits.memory_bytes, memory, processes;
	char facts[128];

	a->last = *now;
	if (before.time_ms == 0 || now->time_ms - before.time_ms > SAMPLES_APART_MS)
		return;
	processes = alarm_grown(before.pids, now->pids);
	memory = alarm_grown(before.memory_bytes, now->memory_bytes);
	(void)snprintf(facts, sizeof(facts), "processes\t%llu\n", (unsigned long long)now->pids);
	alarm_raise(s, ALARM_FORK_BURST, processes, facts);
	(void)snprintf(facts, sizeof(facts), "memory_bytes\t%llu\n",
		       (unsigned long long)now->memory_bytes);
	if (limit > 0)
		alarm_raise(s, ALARM_MEMORY_JUMP, memory > limit ? 100 : memory * 100 / limit,
			    facts);
	alarm_raise(s, ALARM_OUTPUT_FLOOD, alarm_grown(before.output_bytes, now->output_bytes), "");
}

/* ---- a cell that misbehaves */

static void on_fault(struct session *s, const char *what)
{
	char facts[128];

	(void)snprintf(facts, sizeof(facts), "what\t%.100s\n", what);
	alarm_raise(s, ALARM_CELL_FAULT, 1, facts);
}

/* ---- actions */

/* While a session is made, paused or resumed, it is looked at again each second. */
static void act_on(struct session *s, void *arg)
{
	struct alarms_session *a = *session_parts_of(s, &alarms_part);
	enum alarm_action act;

	if (a == NULL || a->act == ALARM_DO_NONE)
		return;
	act = a->act;
	if (session_row(s)->state >= SESSION_ENDING) {
		a->act = ALARM_DO_NONE;
		return;
	}
	if (act == ALARM_DO_PAUSE && !session_pause_for_alarm(s, alarm_kinds[a->act_for].ends))
		return;
	a->act = ALARM_DO_NONE;
	if (act == ALARM_DO_END)
		session_stop(s, SESSION_ALARM, alarm_kinds[a->act_for].ends);
}

static void on_act(struct loop_task *t)
{
	struct alarms_node *n = t->arg;

	session_each(n->core, NULL, act_on, NULL);
}

/* Tell of counted alarms. */
static void on_session_second(struct session *s)
{
	struct alarms_session *a = *session_parts_of(s, &alarms_part);

	if (a == NULL)
		return;
	for (unsigned i = 0; i < ALARM_KINDS; i++) {
		const struct alarm_count n = a->counts[i];

		if (n.held > 0 && may_raise(&n) && session_row(s)->state < SESSION_ENDING)
			raise_now(s, (enum alarm_kind)i, n.held, n.held_value, "");
	}
	if (a->act != ALARM_DO_NONE)
		loop_defer(core_loop(session_core(s)), &node_of(s)->act);
}

/* ---- the part */

/* Another file of the node begins another cordond. */
static int read_node_policy(struct alarms_node *n, struct err *e)
{
	const char *text = core_options(n->core)->node_policy;
	struct policy *p = NULL;

	if (text == NULL)
		return 0;
	if (policy_read(text, strlen(text), POLICY_NODE, &p, e) < 0)
		return err_wrap(e, "egress_policy");
	n->node = *policy_alarms(p);
	policy_free(p);
	return 0;
}

static int alarm_setup(struct core *c, struct err *e)
{
	struct alarms_node *n = calloc(1, sizeof(*n));

	assert(n != NULL);
	n->core = c;
	n->act = (struct loop_task){ .on_run = on_act, .arg = n };
	*session_parts_of_core(c, &alarms_part) = n;
	return alarm_rules_setting(core_config(c)->alarms, n->least, e) < 0
		       ? -1
		       : read_node_policy(n, e);
}

static void alarm_release(struct core *c)
{
	struct alarms_node *n = *session_parts_of_core(c, &alarms_part);

	if (n == NULL)
		return;
	loop_task_cancel(core_loop(c), &n->act);
	free(n);
	*session_parts_of_core(c, &alarms_part) = NULL;
}

static void on_free(struct session *s, const struct err *why)
{
	void **at = session_parts_of(s, &alarms_part);
	struct alarms_session *a = *at;

	if (a == NULL)
		return;
	free(a->seen);
	free(a);
	*at = NULL;
}

const struct session_part alarms_part = {
	.name = "alarms",
	.setup = alarm_setup,
	.release = alarm_release,
	.on_changed = alarm_rules_changed,
	.on_session_second = on_session_second,
	.on_sampled = on_sampled,
	.on_fault = on_fault,
	.on_free = on_free,
};
