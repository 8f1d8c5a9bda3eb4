/* session_alloc.c - see session_alloc.h. */
#include "daemon/session/session_alloc.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/execution/dial.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_calls.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/guest/guest_image.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_disk.h"
#include "daemon/session/session_history.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_op.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

/* Deferred to the loop: the caller may be in the middle of a change, and a waiter may end the
 * session. */
static void on_notify_running(struct loop_task *t)
{
	struct session *s = t->arg;

	if (!session_is_usable(s))
		return;
	if (s->starting)
		core_metrics_created(clock_now_ns() - s->created_ns, s->from_pool);
	s->starting = false;
	if (s->on_usable != NULL)
		s->on_usable(s);
	else
		completions_end_all(&s->when_running, NULL);
}

struct session *session_new(struct core *c, struct tenant *t)
{
	struct session *s = calloc(1, sizeof(*s));

	assert(s != NULL);
	s->core = c;
	s->tenant = t;
	s->created_ns = s->used_ns = clock_now_ns();
	s->notify_running = (struct loop_task){ .on_run = on_notify_running, .arg = s };
	s->timer.arg = s;
	return s;
}

void session_free(struct session *s)
{
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s has ended", s->row.id);
	session_free_for(s, &e);
}

/* The waiters are moved out first and called last: a waiter's callback may look for the session,
 * and must not find it any more. */
void session_free_for(struct session *s, const struct err *why)
{
	struct completions running = { 0 }, paused = { 0 }, over = { 0 };
	struct err e = *why;

	completions_move(&s->when_running, &running);
	completions_move(&s->when_paused, &paused);
	completions_move(&s->when_over, &over);
	session_history_forget(s);
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		execution_prepare_cancel(x); /* it waits for the parts */
	session_parts_free(s, &e);
	session_disk_free(s);
	live_guest_cancel(&s->guest.go_on);
	key_sessions_release(s);
	if (s->listed)
		LIST_REMOVE(s);
	session_ops_free(s, &e);
	guest_image_unuse(s->guest.image);
	loop_timer_cancel(s->core->loop, &s->timer);
	loop_task_cancel(s->core->loop, &s->notify_running);
	while (s->executions != NULL)
		execution_free(s->executions);
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	guest_readers_lost(s, &e);
	guest_reader_free(s->guest.still);
	free(s->own);
	free(s->once);
	free(s->uses);
	free(s->samples.ring);
	free(s->records.past);
	free(s->texts);
	free(s->network);
	free(s->metadata);
	free(s->policy);
	mask_free(s->output.mask);
	template_unuse(s->template);
	store_session_release(&s->row);
	free(s);
	/* Usually no waiter is left. A remaining one must end before its session's memory is used
	 * again. */
	completions_end_all(&running, &e);
	completions_end_all(&paused, &e);
	completions_end_all(&over, &e);
}
