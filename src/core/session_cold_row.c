/* session_cold_row.c - see session_cold_row.h. */
#include "session_cold_row.h"

#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "log.h"
#include "session_save.h"
#include "session_timer.h"
#include "store_layer.h"

int session_cold_write_going(struct session *s, uint32_t cold, const struct store_actor *who,
			     struct err *e)
{
	uint32_t before = s->row.cold;

	session_timer_check_clock(s->core);
	session_set_actor(s, who);
	s->row.cold = cold;
	if (s->row.state == SESSION_RUNNING) {
		s->row.paused_since_ms = core_now_ms();
		if (session_save(s, SESSION_PAUSING, SESSION_NO_REASON, e) == 0)
			return 0;
		s->row.paused_since_ms = 0;
	} else if (store_session_update_state(s->core->store, &s->row, e) == 0) {
		return 0;
	}
	s->row.cold = before;
	return -1;
}

static int write_layers(struct session *s, const struct template_stack *own, struct err *e)
{
	/* Not the images of its guest: they have other files. */
	if (store_layer_unuse(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, e) < 0)
		return -1;
	return store_layer_use(s->core->store, STORE_LAYER_OF_SESSION, s->row.id, own->layers,
			       own->nlayers, e);
}

/* from: what it was shown as. The state of the row does not change if it was paused with its
 * memory, but what is shown does. */
static int write_state(struct session *s, const char *from, struct err *e)
{
	bool changes = strcmp(from, session_shown_name(&s->row)) != 0;

	if (s->row.state == SESSION_PAUSING)
		return session_save(s, SESSION_PAUSED, SESSION_NO_REASON, e);
	if (store_session_update_state(s->core->store, &s->row, e) < 0 ||
	    (changes && session_save_event(s, from, e) < 0))
		return -1;
	if (changes)
		session_save_log(s, from);
	return 0;
}

int session_cold_write(struct session *s, const struct template_stack *own, bool blank,
		       struct err *e)
{
	const char *from = session_shown_name(&s->row);
	uint32_t before = s->row.cold;
	bool joined;

	s->row.cold = blank ? COLD_BLANK : COLD_YES;
	if (store_join(s->core->store, &joined, e) == 0 && write_layers(s, own, e) == 0 &&
	    write_state(s, from, e) == 0 && store_leave(s->core->store, joined, e) == 0)
		return 0;
	store_rollback(s->core->store);
	s->row.cold = before;
	return -1;
}

int session_cold_write_memory(struct session *s, const char *root, const char *memory,
			      struct err *e)
{
	const char *from = session_shown_name(&s->row);
	char layers[2][STORE_ID_MAX];
	uint32_t before = s->row.cold;
	bool joined;

	(void)snprintf(layers[0], sizeof(layers[0]), "%s", root);
	(void)snprintf(layers[1], sizeof(layers[1]), "%s", memory);
	s->row.cold = COLD_MEMORY;
	if (store_join(s->core->store, &joined, e) == 0 &&
	    store_layer_use(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id,
			    (const char(*)[STORE_ID_MAX])layers, 2, e) == 0 &&
	    write_state(s, from, e) == 0 && store_leave(s->core->store, joined, e) == 0)
		return 0;
	store_rollback(s->core->store);
	s->row.cold = before;
	return -1;
}

void session_cold_write_lost(struct session *s, const char *why)
{
	bool blank = s->row.cold == COLD_BLANK || s->row.cold == COLD_TO_RESET;
	struct template_stack none = { 0 };
	struct err e = { 0 };

	session_set_actor(s, NULL);
	s->row.detail = why;
	if (s->row.paused_since_ms == 0)
		s->row.paused_since_ms = core_now_ms();
	if (s->row.state == SESSION_RUNNING)
		session_save_anyway(s, SESSION_PAUSING, SESSION_NO_REASON);
	if (s->row.state == SESSION_RESUMING)
		session_save_anyway(s, SESSION_PAUSED, SESSION_NO_REASON);
	if (session_cold_write(s, s->own == NULL ? &none : s->own, blank, &e) < 0)
		log_error("session state could not be written", "session_id=%s error=%s", s->row.id,
			  e.msg);
	s->row.cold = blank ? COLD_BLANK : COLD_YES;
	s->row.state = SESSION_PAUSED;
}
