/* code_execution.c - see code_execution.h. The exit codes are those of `cordon-interpreter run`,
 * the native interface for the same. */
#include "daemon/execution/code_execution.h"

#include <signal.h>
#include <stdio.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution_calls.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output_log.h"
#include "daemon/session/session.h"
#include "daemon/session/session_save.h"
#include "daemon/tenant/record_quota.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/wire/exit_codes.h"

#define CODE_ERROR 1
#define CODE_REFUSED 2
#define PATIENCE_MS 1000 /* with PID 1, asked at the end of a call */
#define FULL_PART 1024	 /* as in cell/init/pid1/disk_usage.c */

bool execution_is_call(const struct execution *x)
{
	return x->row.kind == EXECUTION_CALL;
}

/* A call needs no process, but a place among the session's executions and a descriptor for its log.
 */
static int code_execution_check(struct session *s, struct err *e)
{
	uint64_t max = s->core->o.config->executions_max;

	if (s->row.state != SESSION_RUNNING || s->cell == NULL)
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       session_state_name((enum session_state)s->row.state));
	if (s->running >= max)
		return err_set_reason(e, REASON_QUOTA_EXECUTIONS, "at most %llu run in one session",
				      (unsigned long long)max);
	if (fd_budget_check(&s->core->cells.fds, e) < 0) /* one for its log */
		return -1;
	return record_quota_check(s, e);
}

struct execution *execution_call_start(struct session *s, const struct execution_spec *spec,
				       execution_call_cut_fn *cut, void *arg, struct err *e)
{
	struct execution *x;

	if (code_execution_check(s, e) < 0)
		return NULL;
	x = execution_new(s);
	x->call.cut = cut;
	x->call.arg = arg;
	x->row.output_limit = s->core->o.config->output_limit_default;
	if (execution_record(x, spec, e) < 0) {
		execution_free(x);
		return NULL;
	}
	x->started = true; /* no program has to start */
	x->row.state = EXECUTION_RUNNING;
	x->started_ns = clock_now_ns();
	execution_limits_begin(x);
	x->call.begin = live_cell_stat(s->cell);
	output_log_init(&x->log, s->core->output_fd, x->row.id, x->row.output_limit);
	s->records.n++;
	s->running++;
	session_touch(s);
	return x;
}

bool execution_call_has_room(struct execution *x, size_t bytes)
{
	uint64_t need = output_log_need_for(&x->log, bytes);

	if (x->ended || need == 0)
		return true;
	output_quota_make(x, need, true);
	return !x->log.wait_for_room;
}

/* Output beyond the quota is counted and dropped. The client still gets it. */
void execution_call_keep(struct execution *x, enum output_stream stream, const uint8_t *bytes,
			 size_t n)
{
	uint64_t before = x->log.size;

	if (x->ended)
		return;
	output_quota_make(x, output_log_need_for(&x->log, n), false);
	output_log_append(&x->log, stream, bytes, n, core_now_ms());
	output_quota_count(x, before);
	execution_notify(x);
}

/* Count bytes as written but not kept, and mark the log as cut. */
static void code_execution_drop(struct execution *x, enum output_stream stream, uint64_t n)
{
	uint64_t before = x->log.size;

	output_log_drop(&x->log, stream, n, core_now_ms());
	output_quota_count(x, before);
}

void execution_call_count(struct execution *x, const uint64_t bytes[])
{
	for (unsigned i = 0; i < OUTPUT_STREAMS && !x->ended; i++)
		if (bytes[i] > x->log.written[i])
			code_execution_drop(x, output_stream_at(i), bytes[i] - x->log.written[i]);
}

/* ---- the end */

/* Did a counter grow between the begin and the end of the call? An earlier PID 1 sends zeros. */
static bool code_execution_grew(const struct execution *x, uint64_t before, uint64_t now)
{
	return x->call.counted && now > before;
}

/* Put the answer of PID 1 at the end of the call into an EXITED event, as of a program. A call that
 * fails on a full disk has hit it, even if others filled the disk before. */
static void code_execution_compare(const struct execution *x, const struct agent_event *now,
				   struct agent_event *ret)
{
	const struct agent_event *before = &x->call.before;
	bool failed = ret->exit_code != 0;
	uint64_t left = now->disk_limit_bytes - now->disk_bytes;

	if (code_execution_grew(x, before->disk_full, now->disk_full) ||
	    (failed && now->disk_limit_bytes > 0 && left <= now->disk_limit_bytes / FULL_PART))
		ret->disk_full = 1;
	if (code_execution_grew(x, before->inodes_full, now->inodes_full) ||
	    (failed && now->inodes_limit > 0 && now->inodes >= now->inodes_limit))
		ret->inodes_full = 1;
	if (code_execution_grew(x, before->memory_kills, now->memory_kills))
		ret->flags |= AGENT_HIT_MEMORY;
	if (code_execution_grew(x, before->pids_refused, now->pids_refused))
		ret->flags |= AGENT_HIT_PIDS;
}

/* A cut call looks like a killed program, so that clients need no special case for it. now: the
 * answer of PID 1, or NULL if there is none: then the disk is not known. */
static void code_execution_finish(struct execution *x, const struct agent_event *now)
{
	static const uint8_t codes[] = {
		[EXECUTION_CALL_DONE] = 0,
		[EXECUTION_CALL_ERROR] = CODE_ERROR,
		[EXECUTION_CALL_REFUSED] = CODE_REFUSED,
		[EXECUTION_CALL_CUT] = EXIT_SIGNAL + SIGKILL,
	};
	bool cut = x->call.how == EXECUTION_CALL_CUT;
	struct agent_event v = { .exit_code = codes[x->call.how] };

	loop_timer_cancel(x->session->core->loop, &x->call.patience);
	x->row.exit_code = codes[x->call.how];
	x->row.state = cut ? EXECUTION_KILLED : EXECUTION_EXITED;
	x->killed = cut;
	if (now != NULL)
		code_execution_compare(x, now, &v);
	execution_limits_end(x, &v);
	if (cut) {
		code_execution_drop(x, OUTPUT_STDOUT, 0);
		x->row.signal = SIGKILL;
	}
	x->call.ending = false;
	x->call.cut = NULL;
	execution_finish(x);
}

static void on_patience(struct loop_timer *t)
{
	code_execution_finish(t->arg, NULL);
}

/* The interpreter is a program of its own, and PID 1 cannot say which call used what. So its
 * counters are compared. */
bool execution_call_end(struct execution *x, enum execution_call_outcome how, const char *why)
{
	struct session *s = x->session;

	if (x->ended)
		return true;
	if (!x->call.ending) {
		x->call.how = how;
		if (how == EXECUTION_CALL_CUT) {
			x->row.error_code = ERR_CONFLICT;
			x->row.error = why;
		}
		if ((how == EXECUTION_CALL_DONE || how == EXECUTION_CALL_ERROR) && s->cell != NULL)
			x->call.end = live_cell_stat(s->cell);
	}
	if (how == EXECUTION_CALL_CUT || x->call.end == 0) {
		code_execution_finish(x, NULL);
		return true;
	}
	if (!x->call.ending) {
		x->call.ending = true;
		x->call.patience = (struct loop_timer){ .on_expire = on_patience, .arg = x };
		loop_timer_set(s->core->loop, &x->call.patience,
			       clock_now_ns() + PATIENCE_MS * CLOCK_MS);
	}
	return false;
}

/* Find a call whose end waits for this answer, or NULL. */
static struct execution *code_execution_waiting(struct session *s)
{
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		if (x->call.ending && x->call.end <= s->cell->stats_answered)
			return x;
	return NULL;
}

void execution_call_on_stated(struct session *s, const struct agent_event *v)
{
	struct execution *x;

	for (x = s->executions; x != NULL; x = x->next)
		if (x->call.begin != 0 && x->call.begin <= s->cell->stats_answered) {
			x->call.begin = 0;
			x->call.counted = true;
			x->call.before = *v;
		}
	while ((x = code_execution_waiting(s)) != NULL)
		code_execution_finish(x, v);
}

void execution_call_settle(struct execution *x)
{
	if (x->call.ending)
		code_execution_finish(x, NULL);
}

void execution_call_end_old(struct session *s)
{
	LIST_WALK_ENDING(struct execution, x, s->executions) {
		/* alone: a call frees no other */
		if (execution_is_call(x))
			(void)execution_call_end(x, EXECUTION_CALL_CUT, "the server was restarted");
	}
}
