/* execution.c - an execution from its record to its outcome. The streams are in execution_io.c, the
 * reads and requests of others in execution_calls.c.
 *
 * The record is written before PID 1 is asked, and the outcome is written before PID 1 gets the
 * message to forget. If the daemon dies in between, PID 1 holds the program, its pipes and its
 * exit, and execution_adopt.c continues.
 *
 * An execution ends once (`ended`), by execution_finish(). While its session lives, only its notify
 * task frees it, so a callback may use it until the end of the turn.
 */
#include "daemon/execution/execution.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/code_execution.h"
#include "daemon/execution/execution_audit.h"
#include "daemon/execution/execution_calls.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/execution_io.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output_log.h"
#include "daemon/session/redact.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_save.h"
#include "daemon/store/store_once.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/record_quota.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"
#include "lib/wire/exit_codes.h"

static const char *const names[] = {
	[EXECUTION_STARTING] = "starting", [EXECUTION_RUNNING] = "running",
	[EXECUTION_EXITED] = "exited",	   [EXECUTION_KILLED] = "killed",
	[EXECUTION_FAILED] = "failed",
};
_Static_assert(COUNT(names) == EXECUTION_STATES, "one name for each state");

const char *execution_state_name(enum execution_state s)
{
	return s < EXECUTION_STATES ? names[s] : "unknown";
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v);

/* The agent's events name the embedded live_program. */
static struct execution *of_program(struct live_program *p)
{
	return (struct execution *)((char *)p - offsetof(struct execution, program));
}

struct execution *execution_new(struct session *s)
{
	struct execution *x = calloc(1, sizeof(*x));

	assert(x != NULL);
	x->session = s;
	x->in = x->watch_in.fd = x->log.fd = -1;
	for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
		x->out[i] = x->watch_out[i].fd = -1;
	x->program.on_event = on_program;
	x->notify = (struct loop_task){ .on_run = execution_on_notify, .arg = x };
	LIST_PUSH(&s->executions, x);
	return x;
}

/* The waiters are moved out first and called after free(): they may look for the execution. */
void execution_free(struct execution *x)
{
	struct session *s = x->session;
	struct completions ended = { 0 }, dead = { 0 }, room = { 0 };
	struct err e;

	(void)err_set(&e, ERR_CONFLICT, "execution %s has ended", x->row.id);
	completions_move(&x->when_ended, &ended);
	completions_move(&x->when_dead, &dead);
	completions_move(&x->when_room, &room);
	while (x->followers != NULL)
		execution_unfollow(x->followers);
	execution_prepare_cancel(x);
	loop_task_cancel(s->core->loop, &x->notify);
	loop_timer_cancel(s->core->loop, &x->late);
	loop_timer_cancel(s->core->loop, &x->call.patience);
	core_job_cancel(s->core, &x->drain);
	execution_fds_settled(x);
	live_cell_remove(s->cell, &x->program); /* which may be another cell by now */
	execution_close_fds(x);
	output_log_release(&x->log);
	LIST_REMOVE(x);
	free(x->texts);
	free(x->secrets);
	store_execution_release(&x->row);
	free(x);
	completions_end_all(&ended, &e);
	completions_end_all(&dead, NULL);
	completions_end_all(&room, &e);
}

/* ---- starting */

static const char *const kinds[] = {
	[EXECUTION_FOREGROUND] = "command", [EXECUTION_BACKGROUND] = "background",
	[EXECUTION_SERVICE] = "service",    [EXECUTION_INTERPRETER] = "interpreter",
	[EXECUTION_CALL] = "code",
};
_Static_assert(COUNT(kinds) == EXECUTION_KINDS, "one word for each kind");

/* With a key of the request its row is written, too. */
static int execution_insert_once(const struct execution *x, const struct execution_spec *spec,
				 struct err *e)
{
	struct store_once once;

	if (spec->once == NULL)
		return 0;
	once = *spec->once;
	str_copy(once.object, x->row.id);
	return store_once_insert(x->session->core->store, &once, e);
}

/* The record and its event are one transaction. The command itself is in the record only. */
static int execution_insert(struct execution *x, const struct execution_spec *spec, struct err *e)
{
	struct core *c = x->session->core;
	struct execution_audit a;
	bool own = false;

	execution_audit_started(x, &a);
	if (store_join(c->store, &own, e) == 0 &&
	    store_execution_insert(c->store, &x->row, e) == 0 &&
	    execution_insert_once(x, spec, e) == 0 &&
	    event_log_append_more(c, &x->row.actor, x->row.tenant, x->row.session, x->row.id,
				  "execution.started", &a.more, e, "kind\t%s\ntty\t%s\n",
				  kinds[x->row.kind], x->row.tty ? "true" : "false") == 0 &&
	    store_leave(c->store, own, e) == 0)
		return 0;
	store_rollback(c->store);
	return err_wrap(e, "record execution");
}

/* A word from a client, for the record: without values of secrets, and bounded. */
static void set_word(const struct session *s, char ret[STORE_NAME_MAX], const char *word)
{
	str_copy_to(ret, STORE_NAME_MAX, word == NULL ? "" : word);
	session_redact(s, ret);
}

int execution_record(struct execution *x, const struct execution_spec *spec, struct err *e)
{
	/* "/" of code is the sending program's directory, not the code's. */
	bool unknown = spec->cwd == NULL || (spec->results && strcmp(spec->cwd, "/") == 0);
	const struct store_template *t = session_template(x->session);
	/* The default if the client named none. "~": the home of its user. */
	const char *usual =
		t != NULL && t->workdir != NULL && t->workdir[0] != '\0' ? t->workdir : "~";
	const char *cwd = spec->results				      ? (unknown ? "" : spec->cwd)
			  : spec->cwd == NULL || spec->cwd[0] == '\0' ? usual
								      : spec->cwd;
	const char *user = spec->user != NULL && spec->user[0] != '\0'		? spec->user
			   : t != NULL && t->user != NULL && t->user[0] != '\0' ? t->user
										: "user";
	const char *text = spec->keep_text && spec->text != NULL ? spec->text : "";
	const char *client = spec->client == NULL ? "" : spec->client;
	/* One byte more than kept, so that record_quota_cut() sees too long a text. */
	size_t part = session_redact_len(x->session, text, RECORD_TEXT_MAX + 1);
	size_t cwd_len = strlen(cwd) + 1, text_len = part + 1;
	size_t client_len = strlen(client) + 1;

	rand_id("exe_", x->row.id, sizeof(x->row.id));
	memcpy(x->row.session, x->session->row.id, sizeof(x->row.session));
	memcpy(x->row.tenant, x->session->row.tenant, sizeof(x->row.tenant));
	x->texts = malloc(cwd_len + text_len + client_len);
	assert(x->texts != NULL);
	x->row.cwd = memcpy(x->texts, cwd, cwd_len);
	x->row.command = memcpy(x->texts + cwd_len, text, part);
	x->texts[cwd_len + part] = '\0';
	x->row.client = memcpy(x->texts + cwd_len + text_len, client, client_len);
	session_redact(x->session, x->texts);
	session_redact(x->session, x->texts + cwd_len);
	record_quota_cut(x->texts + cwd_len);
	record_quota_text(x->session, x->texts + cwd_len);
	x->row.error = "";
	if (spec->hash != NULL)
		memcpy(x->row.command_hash, spec->hash, sizeof(x->row.command_hash));
	else
		sha256_of(spec->text == NULL ? "" : spec->text,
			  spec->text == NULL ? 0 : strlen(spec->text), x->row.command_hash);
	set_word(x->session, x->row.language, spec->language);
	set_word(x->session, x->row.context, spec->context);
	set_word(x->session, x->row.user, user);
	x->row.kind = spec->kind != 0 ? spec->kind : spec->background;
	if (spec->actor != NULL)
		x->row.actor = *spec->actor;
	x->row.tty = spec->tty;
	x->row.record_input = spec->record_input;
	x->row.created_ms = x->row.started_ms = core_now_ms();
	x->row.handle = x->program.handle;
	x->row.state = EXECUTION_STARTING;
	return execution_insert(x, spec, e);
}

/* The checks come in the order of their cost. No step before execution_record() leaves a trace. */
struct execution *execution_start(struct session *s, const struct execution_spec *spec,
				  struct err *e)
{
	const struct config *g = s->core->o.config;
	struct execution *x;

	if (s->row.state != SESSION_RUNNING || s->cell == NULL || !s->cell->connected) {
		(void)err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			      session_shown_name(&s->row));
		return NULL;
	}
	if (s->running >= g->executions_max) {
		(void)err_set_reason(e, REASON_QUOTA_EXECUTIONS, "at most %llu run in one session",
				     (unsigned long long)g->executions_max);
		return NULL;
	}
	if (spec->output_limit > g->output_limit_max) {
		(void)err_set(e, ERR_INVALID,
			      "output_limit: %s is above the maximum of %s (output_limit_max)",
			      limit_text("memory", spec->output_limit).s,
			      limit_text("memory", g->output_limit_max).s);
		return NULL;
	}
	if (g->exec_timeout_max_ms > 0 && spec->timeout_ms > g->exec_timeout_max_ms) {
		(void)err_set(e, ERR_INVALID, "timeout: at most %llu s (exec_timeout_max)",
			      (unsigned long long)g->exec_timeout_max_ms / 1000);
		return NULL;
	}
	if (spec->user != NULL && str_has_control(spec->user)) {
		(void)err_set(e, ERR_INVALID, "user: must have no control characters");
		return NULL;
	}
	if (fd_budget_check(&s->core->cells.fds, e) < 0 || record_quota_check(s, e) < 0)
		return NULL;
	x = execution_new(s);
	x->row.timeout_ms = spec->timeout_ms != 0 || spec->kind != 0 ? spec->timeout_ms
								     : g->exec_timeout_default_ms;
	x->row.output_limit =
		spec->output_limit == 0 ? g->output_limit_default : spec->output_limit;
	x->background = spec->background || spec->kind != 0;
	x->stdin_open = spec->stdin_open || spec->tty;
	/* The handle comes before the record, because the record has it. */
	live_cell_add(s->cell, &x->program);
	if ((spec->secrets != NULL && spec->secrets[0] != '\0' &&
	     session_parts_check_execution(s, x, spec->secrets, e) < 0) ||
	    execution_record(x, spec, e) < 0) {
		execution_free(x);
		return NULL;
	}
	output_log_init(&x->log, s->core->output_fd, x->row.id, x->row.output_limit);
	if (spec->tty)
		execution_note_size(x, spec->rows, spec->cols);
	x->started_ns = clock_now_ns();
	execution_limits_begin(x);
	s->records.n++;
	s->running++;
	x->owed = true;
	s->core->cells.fds.owed += FD_BUDGET_EACH;
	session_touch(s);
	if (!execution_prepare(x, spec) && execution_send(x, spec, e) < 0) {
		/* Its record is in the store already, and gets the error. */
		x->row.error_code = e->code;
		execution_lost(x);
		return NULL;
	}
	execution_expect(x);
	return x;
}

/* ---- its outcome */

/* The text is not copied, because rows outlive callers' buffers only as constants or in x->why. */
static void set_error(struct execution *x, enum err_code code, const char *text)
{
	x->row.error_code = code;
	x->row.error = text; /* a constant, or x->why */
}

static void count_redacted(struct execution *x)
{
	uint64_t all[MASK_COUNTS];

	memcpy(all, x->redacted, sizeof(all));
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		for (unsigned k = 0; k < MASK_COUNTS; k++)
			all[k] += x->mask[i].stream.counts[k];
	redact_counts(all, x->row.redacted, sizeof(x->row.redacted));
}

void execution_count_out(struct execution *x)
{
	x->row.out_bytes = x->log.written[0];
	x->row.err_bytes = x->log.written[1];
	x->row.result_bytes = x->log.written[2];
	x->row.log_bytes = x->log.size;
	x->row.truncated = x->log.cut;
	count_redacted(x);
}

/* The outcome and its events are one transaction: a client that sees the event finds the outcome.
 */
static int execution_save(struct execution *x, struct err *e)
{
	struct execution_audit a;
	struct core *c = x->session->core;

	execution_audit_ended(x, &a);
	if (store_begin(c->store, e) == 0 && store_execution_update(c->store, &x->row, e) == 0 &&
	    event_log_append_more(c, &x->row.actor, x->row.tenant, x->row.session, x->row.id,
				  "execution.ended", &a.more, e,
				  "state\t%s\nexit_code\t%d\nlimit\t%s\nlimits_hit\t%s\n",
				  execution_state_name((enum execution_state)x->row.state),
				  x->row.exit_code, x->row.limit, x->row.limits_hit) == 0 &&
	    (x->row.limits_hit[0] == '\0' ||
	     event_log_append(c, &x->row.actor, x->row.tenant, x->row.session, x->row.id,
			      "execution.limit", e, "limits_hit\t%s\nexit_code\t%d\n",
			      x->row.limits_hit, x->row.exit_code) == 0) &&
	    store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	return -1;
}

/* Record the outcome and tell the waiters. If the outcome cannot be written now, PID 1 continues to
 * hold it. */
void execution_finish(struct execution *x)
{
	struct session *s = x->session;
	struct err e;

	x->ended = true;
	execution_prepare_cancel(x);
	execution_expect_leftovers(x);
	execution_fds_settled(x);
	x->row.ended_ms = core_now_ms();
	x->row.client = ""; /* not needed after its end */
	execution_remember(x);
	/* With leftovers it is taken up again after a restart of this daemon. */
	x->row.output_open = execution_output_open(x) || x->leftovers;
	execution_count_out(x);
	if (execution_save(x, &e) < 0) {
		log_error("outcome of an execution could not be written",
			  "session_id=%s execution_id=%s error=%s", x->row.session, x->row.id,
			  e.msg);
		x->unsaved = true;
	}
	s->running--;
	session_parts_execution_ended(s, x);
	s->used_ns = clock_now_ns();
	session_plan_timer(s);
	core_metrics_executed(s->used_ns - x->started_ns,
			      x->row.state == EXECUTION_EXITED	 ? CORE_METRICS_EXITED
			      : x->row.state == EXECUTION_KILLED ? CORE_METRICS_KILLED
								 : CORE_METRICS_FAILED,
			      x->row.limit, x->row.limits_hit);
	log_debug("execution ended", "session_id=%s execution_id=%s state=%s exit_code=%d limit=%s",
		  x->row.session, x->row.id,
		  execution_state_name((enum execution_state)x->row.state), x->row.exit_code,
		  x->row.limit);
	execution_maybe_complete(x);
	execution_notify(x);
	completions_end_all(&x->when_ended, NULL);
	(void)err_set(&e, ERR_CONFLICT, "execution %s has ended", x->row.id);
	completions_end_all(&x->when_room, &e);
}

/* The outcome is in memory until it can be written. PID 1 holds the program until then. */
void execution_retry_save(struct execution *x)
{
	struct err e;

	if (!x->unsaved || execution_save(x, &e) < 0)
		return;
	x->unsaved = false;
	execution_maybe_complete(x);
}

/* The exit waits until the output before it is in the log, so that clients see all output before
 * the outcome. */
static void on_exited(struct execution *x, const struct agent_event *v)
{
	if (x->ended || x->exiting)
		return;
	x->exiting = true;
	x->exit = *v;
	if (x->overdue > 0 && v->signal == SIGKILL)
		x->exit.timed_out = 1; /* KILL_TREE ended it */
	execution_drain(x);
}

/* Fill in the outcome from the exit that PID 1 reported. */
void execution_exited(struct execution *x)
{
	const struct agent_event *v = &x->exit;

	x->row.signal = (int32_t)v->signal;
	x->row.timed_out = v->timed_out != 0;
	x->row.cpu_us = v->cpu_us;
	execution_limits_end(x, v);
	x->row.exit_code = x->row.timed_out ? EXIT_TIMEOUT
			   : v->signal != 0 ? EXIT_SIGNAL + (int32_t)v->signal
					    : (int32_t)v->exit_code;
	x->row.state = x->row.timed_out || v->signal != 0 ? EXECUTION_KILLED : EXECUTION_EXITED;
	if (x->row.timed_out)
		execution_kill_leftovers(x);
	execution_finish(x);
}

/* PID 1 could not start the program. Its stage says whose mistake it was: the request's, or a lack
 * of processes or memory. */
static void on_failed(struct execution *x, const struct agent_event *v)
{
	static const char *const words[] = {
		[AGENT_AT_USER] = "no such user in the session",
		[AGENT_AT_CWD] = "the working directory cannot be entered",
		[AGENT_AT_EXEC] = "the program cannot be executed",
		[AGENT_AT_SYSTEM] = "the session could not start a process",
	};
	static const enum execution_fault faults[] = {
		[AGENT_AT_USER] = EXECUTION_NO_USER,
		[AGENT_AT_CWD] = EXECUTION_NO_CWD,
		[AGENT_AT_EXEC] = EXECUTION_NO_PROGRAM,
		[AGENT_AT_SYSTEM] = EXECUTION_NO_PROCESS,
	};

	if (x->ended || x->exiting)
		return;
	x->row.state = EXECUTION_FAILED;
	x->fault = faults[v->stage];
	x->fault_sys = v->sys;
	x->row.exit_code = v->sys == ENOENT && v->stage == AGENT_AT_EXEC ? EXIT_NOT_FOUND
									 : EXIT_NOT_EXECUTABLE;
	set_error(x, v->stage == AGENT_AT_SYSTEM ? ERR_LIMIT : ERR_INVALID, words[v->stage]);
	if (v->stage == AGENT_AT_USER || v->stage == AGENT_AT_CWD) {
		(void)snprintf(x->why, sizeof(x->why), "%s: %.100s", words[v->stage],
			       v->stage == AGENT_AT_CWD ? x->row.cwd
			       : x->row.user[0] != '\0' ? x->row.user
							: "the default user of its template");
		session_redact(x->session, x->why);
		x->row.error = x->why;
	}
	if (v->stage == AGENT_AT_EXEC && v->sys == ENOENT)
		x->row.error = "no such program in the session";
	if (v->stage == AGENT_AT_SYSTEM && (v->sys == EAGAIN || v->sys == ENOMEM)) {
		str_copy(x->row.limit, v->sys == EAGAIN ? "pids" : "memory");
		execution_limits_add(x, x->row.limit);
	}
	execution_finish(x);
}

unsigned execution_on_started(struct execution *x, const struct agent_event *v, const int *fds,
			      unsigned n)
{
	struct err e;

	if (x->started || x->ended)
		return 0;
	x->started = true;
	x->row.mark = v->mark; /* written with the outcome: children may live on */
	if (execution_take_fds(x, v, fds, n, &e) < 0) {
		execution_give_up(x, "the output cannot be read: the daemon is out of memory");
		return n;
	}
	x->pid = v->pid;
	x->row.state = EXECUTION_RUNNING;
	execution_expect(x);
	execution_notify(x);
	completions_end_all(&x->when_room, NULL);
	return n;
}

/* Descriptors not taken here are closed with the next message. */
static void take_started(struct execution *x, struct live_cell *c, const struct agent_event *v)
{
	unsigned n = c->agent.nfds;

	if (execution_on_started(x, v, c->agent.fds, n) == n)
		c->agent.nfds = 0;
}

/* PID 1 has done its part, or is gone. e: processes of the tree live. */
static void on_tree_dead(struct execution *x, const struct err *e)
{
	x->killing = false;
	if (e == NULL && x->leftovers) {
		x->leftovers = false;
		execution_expect_leftovers(x);
	}
	completions_end_all(&x->when_dead, e);
	execution_maybe_complete(x);
}

static void take_tree_dead(struct execution *x, const struct agent_event *v)
{
	bool some_remain = (v->flags & AGENT_SOME_REMAIN) != 0;
	struct err e;

	execution_err_remain(&e, x->row.session);
	execution_on_tree_dead(x, some_remain);
	on_tree_dead(x, some_remain ? &e : NULL);
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	execution_on_event(of_program(p), c, type, v);
}

void execution_on_event(struct execution *x, struct live_cell *c, unsigned type,
			const struct agent_event *v)
{
	if (type == AGENT_STARTED)
		take_started(x, c, v);
	else if (type == AGENT_FAILED)
		on_failed(x, v);
	else if (type == AGENT_EXITED)
		on_exited(x, v);
	else if (type == AGENT_TREE_DEAD)
		take_tree_dead(x, v);
}

/* Cut the log of a call. A call has no pipe to drain. */
static void cut_call_log(struct execution *x)
{
	uint64_t before = x->log.size;

	output_log_drop(&x->log, OUTPUT_STDOUT, 0, core_now_ms());
	output_quota_count(x, before);
}

/* Also for an exited execution: its outcome is known then, and only its output may be
 * incomplete. */
void execution_lost(struct execution *x)
{
	execution_drain_last(x);
	execution_call_settle(x);
	if (!x->ended && x->exiting) {
		execution_exited(x);
	} else if (!x->ended) {
		if (x->row.kind == EXECUTION_CALL)
			cut_call_log(x);
		x->row.state = EXECUTION_KILLED;
		x->row.exit_code = EXIT_SIGNAL + SIGKILL;
		x->row.signal = SIGKILL;
		if (x->overdue > 0)
			execution_set_timed_out(x);
		if (x->row.limit[0] == '\0') {
			bool oom = x->session->row.reason == SESSION_OOM;

			str_copy(x->row.limit, oom ? "memory" : "killed");
			if (oom)
				execution_limits_add(x, "memory");
		}
		if (x->row.error_code == ERR_NONE)
			set_error(x, ERR_CONFLICT, "the session ended");
		execution_finish(x);
	}
	execution_close_fds(x);
	on_tree_dead(x, NULL); /* nor is the tree */
}

void execution_lose_all(struct session *s)
{
	/* alone: the loop frees a lost execution later */
	LIST_WALK_ENDING(struct execution, x, s->executions)
		execution_lost(x);
}
