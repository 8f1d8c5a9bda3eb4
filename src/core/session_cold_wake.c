/* session_cold_wake.c - a cold session gets a cell again: made from its template and its own layers
 * or disk, as a new session's is, followed by the start command of the template. See
 * session_cold.h. */
#include <string.h>

#include "clock.h"
#include "core_private.h"
#include "execution_adopt.h"
#include "log.h"
#include "quota.h"
#include "session_cold.h"
#include "session_guest.h"
#include "session_lifecycle.h"
#include "session_pause.h"
#include "session_reboot.h"
#include "session_save.h"
#include "session_service.h"
#include "session_spec.h"
#include "session_stop.h"
#include "session_timer.h"
#include "templates_private.h"

/* One that was reset, or never had files of its own, begins as its template does: a snapshot with
 * memory goes on. */
static void set_beginning(struct session *s)
{
	if (s->row.cold == COLD_MEMORY)
		return;
	s->goes_on = s->own == NULL && s->template != NULL && template_has_memory(s->template);
	if (s->goes_on)
		memcpy(s->source, s->template->row.source, sizeof(s->source));
}

void session_cold_wake(struct session *s, const struct store_actor *who)
{
	struct core *c = s->core;
	struct keeper_create plan;
	unsigned retry_s;
	struct err e;

	if (s->cooling != NULL)
		return; /* the cell is not gone yet: on_gone() calls again */
	session_timer_check_clock(c);
	session_set_actor(s, who);
	if (core_level_check(c, session_level(s), &e) < 0 ||
	    session_spec_plan(c, s->template, &s->row, s->own, &plan, &e) < 0 ||
	    (!s->counted && quota_fits(s, &retry_s, &e) < 0) ||
	    session_save(s, SESSION_RESUMING, SESSION_NO_REASON, &e) < 0) {
		session_cold_not_woken(s, &e);
		completions_end_all(&s->when_running, &e);
		return;
	}
	if (!s->counted)
		quota_take(s);
	set_beginning(s);
	session_make_cell(s, &plan);
}

static void not_up(struct session *s, const struct err *e)
{
	struct err why = *e, ignored;

	/* The guest may have reported its programs before it failed: they wait for the next one. */
	if (s->row.cold == COLD_MEMORY && s->cell != NULL)
		execution_detach_all(s);
	s->cell = NULL; /* ends by itself */
	quota_uncount(s);
	IGNORED(session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &ignored),
		"the next start makes paused of resuming, too");
	s->row.state = SESSION_PAUSED;
	session_plan_timer(s);
	session_cold_not_woken(s, &why);
	completions_end_all(&s->when_running, &why);
}

/* Its guest runs with the programs that it had; the saved memory is not needed any more. */
static void went_on(struct session *s)
{
	char root[STORE_ID_MAX];
	struct err e;

	s->cannot_save = false;
	execution_lose_detached(s);
	session_service_recover(s);
	if (session_guest_root(s, root, &e) < 0 ||
	    store_layer_use(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id,
			    (const char(*)[STORE_ID_MAX])root, 1, &e) < 0)
		log_warn("a memory image stays until the session ends", "session_id=%s error=%s",
			 s->row.id, e.msg);
	layers_collect(&s->core->layers, false, NULL);
}

void session_cold_up(struct session *s, const struct err *e)
{
	bool goes_on = s->row.cold == COLD_MEMORY;
	struct err why;

	if (e != NULL) {
		not_up(s, e);
		return;
	}
	s->row.pid = s->cell->pid;
	memcpy(s->row.boot_id, s->core->boot_id, sizeof(s->row.boot_id));
	s->row.cold = COLD_NO;
	s->cpu_before_us = s->row.usage.cpu_us;
	s->meter.seen_ns = clock_now_ns(); /* nothing was held while it had no cell */
	s->oom_last = s->pids_last = s->oom_seen = s->pids_seen = s->disk_seen = s->inodes_seen = 0;
	session_pause_over(s);
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why) < 0) {
		completions_end_all(&s->when_running, &why);
		session_stop(s, SESSION_CRASHED, "the start of the session could not be recorded");
		return;
	}
	if (goes_on)
		went_on(s);
	else if (s->goes_on)
		session_service_recover(s);
	else
		session_reboot_begin(s);
	session_start_parts(s);
}
