/* execution_deadline.c - ends executions whose PID 1 does not keep their time.
 *
 * PID 1 starts executions and enforces their timeouts. A stopped or starved PID 1 does neither. An
 * execution not started within execution_start_ms fails. If one runs execution_slack_ms longer than
 * its timeout, PID 1 is told to kill the tree. If it has not done that after ANSWER_TICKS more, the
 * cell is ended. A client's kill has the same time: execution_slack_ms, then ANSWER_TICKS, in which
 * a KILL_TREE that PID 1's queue refused is tried again. Until then the record says that the
 * execution runs, as it may. An execution that PID 1 has not started has no process, so its time
 * ends as soon as PID 1 is told. If it cannot be told, the cell is ended: it would start the
 * program when it reads again. Time in which the session is paused or a capture holds its programs
 * still does not count. After a restart of this daemon the time counts from that restart. The wait
 * for PID 1 is counted in ticks in which the cell is not stopped.
 *
 * A timeout is that of all that the program started. When the program has ended by it, PID 1 is
 * told to kill the tree, even if it has done so by itself: it tries for two seconds, and FORGET
 * would end that. If processes remain it is told again. After execution_slack_ms and ANSWER_TICKS
 * the cell is ended.
 *
 * A program that a client has killed, and that another one of the session traces, is dead and not
 * reaped. Its record ends execution_slack_ms after PID 1 has found no process of it.
 */
#include "daemon/execution/execution_deadline.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cell/cellctl/usage.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_calls.h"
#include "daemon/execution/execution_io.h"
#include "daemon/node/core_private.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/wire/exit_codes.h"

#define KILLS_MAX 64 /* of a session, at once */
#define KILL_MS 30000

struct tree_kill {
	struct tree_kill *next, **link; /* list.h: of its session */
	struct session *session;
	struct live_program program;
	uint64_t mark;
	bool sent;
	struct completions when_dead;
};

/* The waiters are called after free(), because they may end the session. */
static void deadline_end(struct tree_kill *k, const struct err *e)
{
	struct session *s = k->session;
	struct completions waiters = { 0 };

	LIST_REMOVE(k);
	live_cell_remove(s->cell, &k->program);
	completions_move(&k->when_dead, &waiters);
	free(k);
	completions_end_all(&waiters, e);
}

void execution_err_remain(struct err *e, const char *session_id)
{
	(void)err_set(e, ERR_LIMIT, "session %s: some processes could not be ended in time",
		      session_id);
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	struct tree_kill *k = (struct tree_kill *)((char *)p - offsetof(struct tree_kill, program));
	struct err e;

	if (type != AGENT_TREE_DEAD)
		return; /* not an answer to KILL_TREE: PID 1 is untrusted */
	execution_err_remain(&e, c->id);
	deadline_end(k, (v->flags & AGENT_SOME_REMAIN) != 0 ? &e : NULL);
}

/* Find the kill with that mark, or NULL. Then *ret_n is the number in progress. */
static struct tree_kill *execution_kill_find(struct session *s, uint64_t mark, unsigned *ret_n)
{
	*ret_n = 0;
	for (struct tree_kill *k = s->kills; k != NULL; k = k->next, ++*ret_n)
		if (k->mark == mark)
			return k;
	return NULL;
}

static void deadline_ask(struct tree_kill *k, struct live_cell *c)
{
	struct err e;

	k->sent = true;
	/* A PID 1 of an earlier version treats the request as a protocol error and ends. */
	if (c->version < AGENT_VERSION_MARKS)
		deadline_end(k, NULL);
	else if (agent_send_kill_tree(&c->agent, k->program.handle, k->mark, &e) < 0)
		deadline_end(k, &e);
	else
		live_cell_flush(c);
}

/* A tree kill has a handle of its own, since the execution's handle was forgotten. */
static struct tree_kill *deadline_begin(struct session *s, uint64_t mark)
{
	struct tree_kill *k = calloc(1, sizeof(*k));

	assert(k != NULL);
	k->session = s;
	k->mark = mark;
	k->program.on_event = on_program;
	LIST_PUSH(&s->kills, k);
	live_cell_add(s->cell, &k->program);
	return k;
}

static void wait_for(struct tree_kill *k, struct completion *w)
{
	completion_begin(w, k->session->core->loop, &k->when_dead);
	completion_set_deadline(w, KILL_MS, "end of the execution");
}

/* A second request for the same tree waits for the first one's answer. */
void execution_kill_ended(struct session *s, uint64_t mark, struct completion *w)
{
	struct live_cell *c = s->cell;
	struct tree_kill *k;
	unsigned n;
	struct err e;

	/* Without a cell none of its processes lives. Without a mark it never had any. */
	if (mark == 0 || c == NULL || !c->connected) {
		completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	k = execution_kill_find(s, mark, &n);
	if (k != NULL) {
		wait_for(k, w);
		return;
	}
	if (n >= KILLS_MAX) {
		(void)err_set_reason(&e, REASON_QUOTA_EXECUTIONS,
				     "at most %d are being ended in one session", KILLS_MAX);
		completion_end_soon(w, s->core->loop, &e);
		return;
	}
	k = deadline_begin(s, mark);
	wait_for(k, w);
	if (c->synced)
		deadline_ask(k, c);
}

void execution_kills_synced(struct session *s)
{
	struct tree_kill *k = s->kills;

	while (k != NULL) {
		if (k->sent) {
			k = k->next;
			continue;
		}
		deadline_ask(k, s->cell); /* a callback may change the list */
		k = s->kills;
	}
}

void execution_kills_lost(struct session *s)
{
	while (s->kills != NULL)
		deadline_end(s->kills, NULL);
}

/* Read the cell's counters. They only grow, so an execution's hits are a difference of two reads.
 */
static void deadline_look(struct session *s, struct usage *ret)
{
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_LIMITS, ret);
	s->seen.oom_last = ret->oom_kills;
	s->seen.pids_last = ret->pids_refused;
}

void execution_limits_begin(struct execution *x)
{
	x->oom_before = x->session->seen.oom_last;
	x->pids_before = x->session->seen.pids_last;
	x->counted = true;
}

void execution_limits_synced(struct session *s)
{
	struct usage now;

	deadline_look(s, &now);
	s->seen.oom = now.oom_kills;
	s->seen.pids = now.pids_refused;
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		if (!x->ended)
			execution_limits_begin(x);
}

bool execution_limit_in(const char *list, const char *name)
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

	if (!execution_limit_in(list, name))
		(void)snprintf(list + used, sizeof(x->row.limits_hit) - used, "%s%s",
			       used > 0 ? "," : "", name);
}

/* Take the hits named as this execution's `limit` out of the session's counters. If several run,
 * each process killed for memory counts for one execution that fails after it, and a refused
 * process for the first. */
static void deadline_take(struct session *s, const struct usage *now)
{
	if (s->running <= 1)
		s->seen.oom = now->oom_kills;
	else if (now->oom_kills > s->seen.oom)
		s->seen.oom++;
	s->seen.pids = now->pids_refused;
}

/* The counter from which an execution's hits count. */
static uint64_t deadline_base(bool all, uint64_t before, uint64_t seen)
{
	return all || before > seen ? before : seen;
}

/* Find the limits hit, in the order in which one of them is named as `limit`. all: since the
 * execution's start, else since the last named one, if later. */
static const char *deadline_find(const struct execution *x, const struct agent_event *v,
				 const struct usage *now, bool all, struct execution *list)
{
	const struct session *s = x->session;
	uint64_t oom = deadline_base(all, x->oom_before, s->seen.oom);
	uint64_t pids = deadline_base(all, x->pids_before, s->seen.pids);
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

/* Called once for each execution, at its exit. */
void execution_limits_end(struct execution *x, const struct agent_event *v)
{
	struct session *s = x->session;
	bool failed = v->exit_code != 0 || v->signal != 0 || v->timed_out != 0;
	const char *limit = "";
	struct usage now;

	deadline_look(s, &now);
	(void)deadline_find(x, v, &now, true, x);
	/* An execution that ends well leaves the hits to others, which they may have ended. */
	if (failed || s->running <= 1) {
		limit = deadline_find(x, v, &now, false, NULL);
		deadline_take(s, &now);
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
	str_copy(x->row.limit, limit);
}

#define ANSWER_TICKS 10

unsigned execution_start_ms = 60000;
unsigned execution_slack_ms = 5000;
unsigned execution_tick_ms = 1000;

/* Not for a preparing execution: PID 1 does not know its handle. False: the request was refused,
 * because PID 1 has not read those before it. Its processes live, or will when PID 1 reads. */
static bool kill_tree(struct execution *x)
{
	struct live_cell *c = x->session->cell;
	struct err e;

	if (c == NULL || !c->connected || x->program.handle == 0 || execution_is_preparing(x))
		return true;
	if (agent_send_kill_tree(&c->agent, x->program.handle, 0, &e) < 0)
		return false;
	x->killing = true;
	live_cell_flush(c);
	return true;
}

static void on_late(struct loop_timer *t);

static uint64_t still_total_ms(const struct session *s)
{
	return s->row.paused_total_ms + s->captured_ms;
}

static void deadline_init(struct execution *x)
{
	if (x->late.on_expire != NULL)
		return;
	x->late = (struct loop_timer){ .on_expire = on_late, .arg = x };
	x->still_before_ms = still_total_ms(x->session);
}

static void deadline_plan(struct execution *x, uint64_t ms)
{
	loop_timer_set(x->session->core->loop, &x->late, clock_now_ns() + ms * CLOCK_MS);
}

/* FAILED is the state of an execution that never ran, as far as cordond knows. */
void execution_give_up(struct execution *x, const char *why)
{
	if (x->ended || x->exiting)
		return;
	log_warn("execution ended by the daemon", "session_id=%s execution_id=%s why=%s",
		 x->row.session, x->row.id, why);
	if (!kill_tree(x)) {
		x->unkillable = true; /* on_late() ends the cell: the caller is in its events */
		deadline_plan(x, 0);
		return;
	}
	execution_drain_last(x);
	execution_close_fds(x);
	x->row.exit_code = EXIT_NOT_EXECUTABLE;
	x->row.state = EXECUTION_FAILED;
	x->fault = EXECUTION_NO_PROCESS;
	x->row.error_code = ERR_SYSTEM;
	x->row.error = why;
	execution_finish(x);
}

void execution_set_timed_out(struct execution *x)
{
	x->row.timed_out = true;
	x->row.signal = SIGKILL;
	x->row.exit_code = EXIT_TIMEOUT;
	x->row.state = EXECUTION_KILLED;
	(void)snprintf(x->row.limit, sizeof(x->row.limit), "timeout");
	execution_limits_add(x, "timeout");
}

static void end_timed_out(struct execution *x)
{
	execution_drain_last(x);
	execution_close_fds(x);
	execution_set_timed_out(x);
	execution_finish(x);
}

static void end_killed(struct execution *x)
{
	execution_drain_last(x);
	execution_close_fds(x);
	x->row.signal = SIGKILL;
	x->row.exit_code = EXIT_SIGNAL + SIGKILL;
	x->row.state = EXECUTION_KILLED;
	(void)snprintf(x->row.limit, sizeof(x->row.limit), "killed");
	execution_finish(x);
	completions_end_all(&x->when_dead, NULL);
}

/* The execution's own time: time in which it stood still does not count. */
static uint64_t ran_ms(const struct execution *x)
{
	uint64_t still_ms = still_total_ms(x->session) - x->still_before_ms;
	uint64_t ms = (clock_now_ns() - x->started_ns) / CLOCK_MS;

	return ms > still_ms ? ms - still_ms : 0;
}

/* The remaining time. UINT64_MAX: there is no limit. 0: it has ended. */
static uint64_t left_ms(const struct execution *x)
{
	uint64_t ran = ran_ms(x), end = UINT64_MAX;

	if (x->row.timeout_ms > 0)
		end = x->row.timeout_ms + execution_slack_ms;
	if (!x->started && end > execution_start_ms)
		end = execution_start_ms;
	if (x->dead_by_ms > 0 && end > x->dead_by_ms)
		end = x->dead_by_ms;
	return end == UINT64_MAX ? end : end > ran ? end - ran : 0;
}

/* Nothing of a program that a client has killed runs any more. PID 1 reports its exit when it has
 * reaped it, and cannot while another program traces it. */
static void expect_exit(struct execution *x)
{
	x->is_dead = x->dead_by_ms > 0 && !x->ended && !x->exiting;
	x->dead_by_ms = x->is_dead ? ran_ms(x) + execution_slack_ms : 0;
	if (x->is_dead)
		deadline_plan(x, execution_slack_ms);
}

void execution_on_tree_dead(struct execution *x, bool some_remain)
{
	if (!some_remain)
		expect_exit(x);
	if (x->overdue > 0 && !x->ended && !x->exiting && !some_remain)
		end_timed_out(x); /* PID 1 did not report its exit */
	if (x->leftovers && some_remain)
		deadline_plan(x, execution_tick_ms);
}

void execution_mark_overdue(struct session *s)
{
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		if (!x->ended && x->overdue == 0 && x->row.timeout_ms > 0 &&
		    ran_ms(x) >= x->row.timeout_ms)
			x->overdue = 1;
}

/* Is PID 1 stopped for a pause, a capture or a snapshot? */
static bool is_still(const struct session *s)
{
	return s->row.state != SESSION_RUNNING || s->cell == NULL || s->cell->frozen ||
	       session_op_find(s, SESSION_OP_CAPTURE) != NULL ||
	       session_op_find(s, SESSION_OP_MEMORY) != NULL || s->guest.still != NULL;
}

/* The execution runs although its time has ended. */
static void on_overdue(struct execution *x)
{
	if (x->overdue++ == 0)
		log_warn("PID 1 did not enforce the timeout of an execution",
			 "session_id=%s execution_id=%s", x->row.session, x->row.id);
	if (x->overdue > ANSWER_TICKS) {
		x->session->on_unresponsive(x->session);
		return;
	}
	/* An unstarted one has no process, and KILL_TREE follows its SPAWN. If KILL_TREE is
	 * refused, the SPAWN is read later, and alone. */
	if ((x->killing || kill_tree(x)) && !x->started)
		end_timed_out(x);
	else
		deadline_plan(x, execution_tick_ms);
}

/* As above, for an execution killed by a client. */
static void on_kill_overdue(struct execution *x)
{
	if (x->is_dead) {
		end_killed(x);
		return;
	}
	if (x->kill_ticks++ == 0)
		log_warn("PID 1 did not end an execution that was killed",
			 "session_id=%s execution_id=%s", x->row.session, x->row.id);
	if (x->kill_ticks > ANSWER_TICKS)
		x->session->on_unresponsive(x->session);
	else if ((x->killing || kill_tree(x)) && !x->started)
		end_killed(x);
	else
		deadline_plan(x, execution_tick_ms);
}

void execution_kill_leftovers(struct execution *x)
{
	const struct live_cell *c = x->session->cell;

	if (c == NULL || !c->connected || x->program.handle == 0 || execution_is_preparing(x))
		return;
	x->leftovers = true;
	x->leftover_ticks = 0;
	if (!x->killing)
		(void)kill_tree(x); /* on_leftovers() tries again */
}

void execution_expect_leftovers(struct execution *x)
{
	if (x->leftovers) {
		deadline_init(x);
		deadline_plan(x, execution_slack_ms);
	} else {
		loop_timer_cancel(x->session->core->loop, &x->late);
	}
}

/* PID 1 has not ended what a timed-out program left behind. */
static void on_leftovers(struct execution *x)
{
	if (is_still(x->session)) {
		deadline_plan(x, execution_slack_ms);
		return;
	}
	if (x->leftover_ticks++ == 0)
		log_warn("processes of an execution outlive its timeout",
			 "session_id=%s execution_id=%s", x->row.session, x->row.id);
	if (x->leftover_ticks > ANSWER_TICKS) {
		x->session->on_unresponsive(x->session);
		return;
	}
	if (!x->killing)
		(void)kill_tree(x); /* the next tick tries again */
	deadline_plan(x, execution_tick_ms);
}

/* Time in which PID 1 is stopped is not its fault, so the check is repeated later. */
static void on_late(struct loop_timer *t)
{
	struct execution *x = t->arg;
	uint64_t left = left_ms(x);

	if (x->leftovers) {
		on_leftovers(x);
		return;
	}
	if (x->ended || x->exiting)
		return;
	if (x->unkillable)
		x->session->on_unresponsive(x->session);
	else if (left == UINT64_MAX)
		return;
	else if (is_still(x->session))
		deadline_plan(x, execution_slack_ms);
	else if (left > 0)
		deadline_plan(x, left);
	else if (x->row.timeout_ms > 0 && ran_ms(x) >= x->row.timeout_ms + execution_slack_ms)
		on_overdue(x);
	else if (x->dead_by_ms > 0 && ran_ms(x) >= x->dead_by_ms)
		on_kill_overdue(x);
	else
		execution_give_up(x, "PID 1 of the session did not start the program");
}

/* Called again at each event, because the next one has another deadline. */
void execution_expect(struct execution *x)
{
	uint64_t left;

	deadline_init(x);
	left = left_ms(x);
	if (left == UINT64_MAX || x->ended)
		loop_timer_cancel(x->session->core->loop, &x->late);
	else
		deadline_plan(x, left);
}

/* A second kill does not extend the time of the first. */
void execution_expect_death(struct execution *x)
{
	if (x->ended || x->dead_by_ms > 0)
		return;
	deadline_init(x);
	x->dead_by_ms = ran_ms(x) + execution_slack_ms;
	x->kill_ticks = 0;
	execution_expect(x);
}
