/* execution_limits.c - see execution_limits.h. */
#include "execution_limits.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "usage.h"

static void look(struct session *s, struct usage *ret)
{
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_LIMITS, ret);
	s->oom_last = ret->oom_kills;
	s->pids_last = ret->pids_refused;
}

void execution_limits_begin(struct execution *x)
{
	x->oom_before = x->session->oom_last;
	x->pids_before = x->session->pids_last;
	x->counted = true;
}

void execution_limits_synced(struct session *s)
{
	struct usage now;

	look(s, &now);
	s->oom_seen = now.oom_kills;
	s->pids_seen = now.pids_refused;
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		if (!x->ended)
			execution_limits_begin(x);
}

static bool has(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
		if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
			return true;
	return false;
}

void execution_limits_add(struct execution *x, const char *name)
{
	char *list = x->row.limits_hit;
	size_t used = strlen(list);

	if (!has(list, name))
		(void)snprintf(list + used, sizeof(x->row.limits_hit) - used, "%s%s",
			       used > 0 ? "," : "", name);
}

/* Takes what is told of this execution as its `limit` out of the session's counters: if several
 * run, each process that was killed for memory is told of one that fails after it, and a refused
 * process of the first. */
static void take(struct session *s, const struct usage *now)
{
	if (s->running <= 1)
		s->oom_seen = now->oom_kills;
	else if (now->oom_kills > s->oom_seen)
		s->oom_seen++;
	s->pids_seen = now->pids_refused;
}

/* In the order in which one of them is named as `limit`. */
static const char *find(const struct execution *x, const struct agent_event *v,
			const struct usage *now, bool all, struct execution *list)
{
	const struct session *s = x->session;
	uint64_t oom = all ? x->oom_before : s->oom_seen,
		 pids = all ? x->pids_before : s->pids_seen;
	const struct {
		bool hit;
		const char *name;
	} limits[] = {
		{ (x->counted && now->oom_kills > oom) || (v->flags & AGENT_HIT_MEMORY) != 0,
		  "memory" },
		{ (x->counted && now->pids_refused > pids) || (v->flags & AGENT_HIT_PIDS) != 0,
		  "pids" },
		{ v->disk_full > 0, "disk" },
		{ v->inodes_full > 0, "inodes" },
		{ v->signal == SIGXCPU, "cpu" },
	};
	const char *first = "";

	for (size_t i = 0; i < COUNT(limits); i++) {
		if (!limits[i].hit)
			continue;
		if (*first == '\0')
			first = limits[i].name;
		if (list != NULL)
			execution_limits_add(list, limits[i].name);
	}
	return first;
}

void execution_limits_end(struct execution *x, const struct agent_event *v)
{
	struct session *s = x->session;
	bool failed = v->exit_code != 0 || v->signal != 0 || v->timed_out != 0;
	const char *limit = "";
	struct usage now;

	look(s, &now);
	(void)find(x, v, &now, true, x);
	/* One that ends well does not take from others what may have ended them. */
	if (failed || s->running <= 1) {
		limit = find(x, v, &now, false, NULL);
		take(s, &now);
	}
	if (*limit == '\0' && x->log.cut)
		limit = "output";
	if (x->killed && (*limit == '\0' || strcmp(limit, "output") == 0))
		limit = "killed";
	if (v->timed_out != 0)
		limit = "timeout";
	if (*limit != '\0' && strcmp(limit, "killed") != 0)
		execution_limits_add(x, limit);
	if (x->log.cut)
		execution_limits_add(x, "output");
	(void)snprintf(x->row.limit, sizeof(x->row.limit), "%s", limit);
}
