/* session_save.c - see session_save.h. */
#include "session_save.h"

#include "core_private.h"
#include "event_log.h"
#include "log.h"
#include "store_layer.h"
#include "session_guest.h"
#include "session_states.h"

int session_save_event(struct session *s, const char *from, struct err *e)
{
	return event_log_append(s->core, &s->actor, s->row.tenant, s->row.id, "", "session.state",
				e, "from\t%s\nto\t%s\nreason\t%s\n", from,
				session_shown_name(&s->row),
				session_reason_name((enum session_reason)s->row.reason));
}

void session_save_log(const struct session *s, const char *from)
{
	log_info("session state changed", "session_id=%s tenant=%s from=%s to=%s reason=%s",
		 s->row.id, s->row.tenant, from, session_shown_name(&s->row),
		 session_reason_name((enum session_reason)s->row.reason));
}

int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e)
{
	struct store_session before = s->row;
	struct core *c = s->core;
	bool own = false;
	const char *from = session_shown_name(&before);

	if (!session_states_allow((enum session_state)before.state, to))
		return err_set(e, ERR_CONFLICT, "session %s is %s, it cannot become %s", s->row.id,
			       from, session_state_name(to));
	s->row.state = to;
	if (reason != SESSION_NO_REASON)
		s->row.reason = reason;
	if (to == SESSION_STOPPED)
		s->row.ended_ms = core_now_ms();
	if (store_join(c->store, &own, e) == 0 &&
	    store_session_update_state(c->store, &s->row, e) == 0 &&
	    ((to != SESSION_STOPPING && to != SESSION_STOPPED) ||
	     store_session_update_usage(c->store, s->row.id, &s->row.usage, e) == 0) &&
	    session_save_event(s, from, e) == 0 &&
	    (to != SESSION_STOPPED || s->own == NULL ||
	     store_layer_unuse(c->store, STORE_LAYER_OF_SESSION, s->row.id, e) == 0) &&
	    (to != SESSION_STOPPED || !session_guest_is_needed(s) ||
	     store_layer_unuse(c->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, e) == 0) &&
	    store_leave(c->store, own, e) == 0) {
		s->unsaved = false;
		if (to == SESSION_STOPPED && (s->own != NULL || session_guest_is_needed(s)))
			layers_collect(&c->layers, false, NULL);
		session_save_log(s, from);
		return 0;
	}
	store_rollback(c->store); /* of the caller, too: a part of it is no transaction */
	s->row = before;
	return -1;
}

void session_save_anyway(struct session *s, enum session_state to, enum session_reason reason)
{
	struct err e;

	if (session_save(s, to, reason, &e) == 0)
		return;
	log_error("session state could not be written", "session_id=%s to=%s error=%s", s->row.id,
		  session_state_name(to), e.msg);
	s->row.state = to;
	s->row.reason = reason == SESSION_NO_REASON ? s->row.reason : reason;
	if (to == SESSION_STOPPED)
		s->row.ended_ms = core_now_ms();
	s->unsaved = true;
}

void session_set_actor(struct session *s, const struct store_actor *who)
{
	s->actor = store_actor_copy(who);
}
