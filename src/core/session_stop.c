/* session_stop.c - see session_stop.h. */
#include "session_stop.h"

#include "core_private.h"
#include "dial.h"
#include "execution.h"
#include "execution_kill.h"
#include "file_op.h"
#include "guest_reader.h"
#include "kept_diff.h"
#include "live_cell.h"
#include "log.h"
#include "meter.h"
#include "session_cold.h"
#include "session_disk.h"
#include "session_guest.h"
#include "session_parts.h"
#include "session_save.h"
#include "session_stopped.h"
#include "usage.h"

void session_note_usage(struct session *s)
{
	struct usage now;

	if (s->cell == NULL && s->row.usage.cpu_us > 0)
		return; /* it was noted when the cell went */

	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_KEPT, &now);
	s->row.usage.cpu_us = s->cpu_before_us + now.cpu_us;
	s->memory_bytes = now.memory_bytes;
	s->row.usage.memory_peak_bytes = now.memory_peak_bytes;
	s->row.usage.disk_bytes = s->cell == NULL ? 0 : s->cell->disk_bytes;
}

/* Writes the state and what was used in one transaction. If that fails, each is tried for itself:
 * the state must not depend on the other. */
static void save_stopping(struct session *s, enum session_reason reason)
{
	struct store_session row = s->row;
	struct meter meter = s->meter;
	struct core *c = s->core;
	bool own = false;
	struct err e;

	if (store_join(c->store, &own, &e) == 0 &&
	    session_save(s, SESSION_STOPPING, reason, &e) == 0 && meter_end(s, &e) == 0 &&
	    store_leave(c->store, own, &e) == 0)
		return;
	store_rollback(c->store);
	s->row = row;
	s->meter = meter;
	session_save_anyway(s, SESSION_STOPPING, reason);
	if (meter_end(s, &e) < 0)
		log_warn("usage of an ended session could not be written", "session_id=%s error=%s",
			 s->row.id, e.msg);
}

void session_stop(struct session *s, enum session_reason reason, const char *detail)
{
	session_stop_for(s, NULL, reason, detail);
}

void session_stop_for(struct session *s, const struct store_actor *who, enum session_reason reason,
		      const char *detail)
{
	struct err e;

	if (s->row.state >= SESSION_STOPPING)
		return;
	session_set_actor(s, who);
	s->row.detail = detail; /* a constant */
	session_note_usage(s);
	save_stopping(s, reason);
	(void)err_set_reason(&e, session_gone_reason(&s->row), "session %s was stopped (%s)",
			     s->row.id, session_reason_name((enum session_reason)s->row.reason));
	loop_timer_cancel(s->core->loop, &s->timer);
	session_lose_executions(s);
	while (s->file_ops != NULL)
		file_op_lost(s->file_ops);
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	session_parts_ending(s, &e);
	completions_end_all(&s->when_running, &e);
	completions_end_all(&s->when_paused, &e);
	completions_end_all(&s->when_over, &e);
	bool waits = session_disk_stopping(s) || session_guest_stopping(s);

	if (session_cold_stopping(s, &e))
		return;
	guest_readers_lost(s, &e);
	if (waits)
		session_stopped_soon(s);
	else if (s->cell != NULL && !kept_diff_start(s))
		live_cell_end(s->cell);
}

void session_fail(struct session *s, const struct err *why, const char *detail)
{
	struct err copy = *why;

	completions_end_all(&s->when_running, &copy);
	session_stop(s, SESSION_CRASHED, detail);
}
