/* code_execution.c - see code_execution.h. The exit codes are those of `cordon-interpreter run`,
 * which is the same for the native interface. */
#include "code_execution.h"

#include <signal.h>
#include <stdio.h>

#include "clock.h"
#include "core_private.h"
#include "execution_calls.h"
#include "exit_codes.h"
#include "fd_budget.h"
#include "output_log.h"
#include "output_quota.h"
#include "record_quota.h"
#include "session_timer.h"

#define CODE_ERROR 1
#define CODE_REFUSED 2

bool execution_is_call(const struct execution *x)
{
	return x->row.kind == EXECUTION_CALL;
}

static int check(struct session *s, struct err *e)
{
	uint64_t max = s->core->o.config->executions_max;

	if (s->row.state != SESSION_RUNNING || s->cell == NULL)
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       session_state_name((enum session_state)s->row.state));
	if (s->running >= max)
		return err_set_reason(e, REASON_QUOTA_EXECUTIONS, "at most %llu run in one session",
				      (unsigned long long)max);
	if (fd_budget_check(&s->core->cells.fds, e) < 0) /* for its log */
		return -1;
	return record_quota_check(s, e);
}

struct execution *execution_call_start(struct session *s, const struct execution_spec *spec,
				       execution_call_cut_fn *cut, void *arg, struct err *e)
{
	struct execution *x;

	if (check(s, e) < 0)
		return NULL;
	x = execution_new(s);
	x->call.cut = cut;
	x->call.arg = arg;
	x->row.output_limit = s->core->o.config->output_limit_default;
	if (execution_record(x, spec, e) < 0) {
		execution_free(x);
		return NULL;
	}
	x->started = true;
	x->row.state = EXECUTION_RUNNING;
	x->started_ns = clock_now_ns();
	output_log_init(&x->log, s->core->output_fd, x->row.id, x->row.output_limit);
	s->records++;
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

static void drop(struct execution *x, enum output_stream stream, uint64_t n)
{
	uint64_t before = x->log.size;

	output_log_drop(&x->log, stream, n, core_now_ms());
	output_quota_count(x, before);
}

void execution_call_count(struct execution *x, const uint64_t bytes[])
{
	for (unsigned i = 0; i < OUTPUT_STREAMS && !x->ended; i++)
		if (bytes[i] > x->log.written[i])
			drop(x, output_stream_at(i), bytes[i] - x->log.written[i]);
}

void execution_call_end(struct execution *x, enum execution_call_outcome how, const char *why)
{
	static const int codes[] = {
		[EXECUTION_CALL_DONE] = 0,
		[EXECUTION_CALL_ERROR] = CODE_ERROR,
		[EXECUTION_CALL_REFUSED] = CODE_REFUSED,
		[EXECUTION_CALL_CUT] = EXIT_SIGNAL + SIGKILL,
	};

	if (x->ended)
		return;
	x->row.exit_code = codes[how];
	x->row.state = how == EXECUTION_CALL_CUT ? EXECUTION_KILLED : EXECUTION_EXITED;
	if (how == EXECUTION_CALL_CUT) {
		drop(x, OUTPUT_STDOUT, 0);
		x->row.signal = SIGKILL;
		(void)snprintf(x->row.limit, sizeof(x->row.limit), "killed");
		x->row.error_code = ERR_CONFLICT;
		x->row.error = why;
	}
	x->call.cut = NULL;
	execution_finish(x);
}

void execution_call_end_old(struct session *s)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: a call ends by itself */
		if (execution_is_call(x))
			execution_call_end(x, EXECUTION_CALL_CUT, "the server was restarted");
	}
}
