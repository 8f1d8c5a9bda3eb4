/* session_alloc.c - see session_alloc.h. */
#include "session_alloc.h"

#include <assert.h>
#include <stdlib.h>

#include "clock.h"
#include "core_metrics.h"
#include "core_private.h"
#include "dial.h"
#include "execution.h"
#include "execution_kill.h"
#include "execution_prepare.h"
#include "guest_reader.h"
#include "kept_diff.h"
#include "key_sessions.h"
#include "list.h"
#include "session_disk.h"
#include "session_guest.h"
#include "session_memory.h"
#include "session_reboot.h"
#include "session_parts.h"
#include "session_service.h"
#include "templates.h"

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

void session_free_for(struct session *s, const struct err *why)
{
	struct completions running = { 0 }, paused = { 0 }, over = { 0 };
	struct err e = *why;

	completions_move(&s->when_running, &running);
	completions_move(&s->when_paused, &paused);
	completions_move(&s->when_over, &over);
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		execution_prepare_cancel(x); /* it waits for the parts */
	session_parts_free(s, &e);
	kept_diff_cancel(s);
	session_reboot_free(s);
	session_disk_free(s);
	(void)session_guest_stopping(s);
	guest_image_unuse(s->image);
	session_memory_lost(s, &e);
	live_guest_cancel(&s->go_on);
	key_sessions_release(s);
	if (s->listed)
		LIST_REMOVE(s);
	session_service_free(s);
	loop_timer_cancel(s->core->loop, &s->timer);
	loop_task_cancel(s->core->loop, &s->notify_running);
	while (s->executions != NULL)
		execution_free(s->executions);
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	guest_readers_lost(s, &e);
	guest_reader_free(s->still);
	free(s->own);
	free(s->samples);
	free(s->past);
	free(s->texts);
	free(s->network);
	free(s->policy);
	mask_free(s->mask);
	template_unuse(s->template);
	store_session_release(&s->row);
	free(s);
	/* Usually none is left; one that is must end before its session's memory is used again. */
	completions_end_all(&running, &e);
	completions_end_all(&paused, &e);
	completions_end_all(&over, &e);
}
