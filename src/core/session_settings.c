/* session_settings.c - changes of a live session that clients ask for (session.h): its timeout, its
 * network settings, its policy. Each is written to the store before it counts. */
#include <stdlib.h>
#include <string.h>

#include "allow.h"
#include "core_private.h"
#include "event_log.h"
#include "live_cell.h"
#include "session.h"
#include "session_timer.h"

/* Writes settings and state; on failure the row is as before. */
static int save_settings(struct session *s, const struct store_session *before, struct err *e)
{
	if (store_begin(s->core->store, e) == 0 &&
	    store_session_update_settings(s->core->store, &s->row, e) == 0 &&
	    store_session_update_state(s->core->store, &s->row, e) == 0 &&
	    store_commit(s->core->store, e) == 0)
		return 0;
	store_rollback(s->core->store);
	s->row = *before;
	return -1;
}

int session_set_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			struct err *e)
{
	uint64_t max = 0;

	session_timer_check_clock(s->core);
	struct store_session before = s->row;

	if (allow_timeout_max(s->core, s->tenant, who, &max, e) < 0)
		return -1;
	if (max > 0 && (timeout_ms > max || timeout_ms == 0))
		return err_set(e, ERR_INVALID, "timeout: at most %llu s",
			       (unsigned long long)max / 1000);
	s->row.timeout_ms = timeout_ms;
	s->row.deadline_ms = timeout_ms == 0 ? 0 : core_now_ms() + timeout_ms;
	/* A paused session's time starts when it goes on. */
	if (s->row.state != SESSION_RUNNING)
		s->row.deadline_ms = 0;
	if (save_settings(s, &before, e) < 0)
		return -1;
	session_touch(s);
	if (s->cell != NULL) /* PID 1 knows the deadline before the client is answered */
		live_cell_flush(s->cell);
	return 0;
}

int session_extend(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
		   struct err *e)
{
	session_timer_check_clock(s->core);
	if (s->row.state == SESSION_RUNNING &&
	    (s->row.deadline_ms == 0 || s->row.deadline_ms >= core_now_ms() + timeout_ms)) {
		session_touch(s);
		return 0;
	}
	return session_set_timeout(s, timeout_ms, who, e);
}

int session_set_network(struct session *s, const char *network, struct err *e)
{
	struct store_session before = s->row;
	char *copy = strdup(network);

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.network = copy;
	if (save_settings(s, &before, e) < 0) {
		free(copy);
		return -1;
	}
	free(s->network);
	s->network = copy;
	session_touch(s);
	return 0;
}

int session_save_policy(struct session *s, const char *document, const char *name,
			const struct store_actor *who, struct err *e)
{
	struct store_session before = s->row;
	struct core *c = s->core;
	char *copy = strdup(document);

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.policy = copy;
	if (store_begin(c->store, e) < 0 ||
	    store_session_update_settings(c->store, &s->row, e) < 0 ||
	    event_log_append(c, who, s->row.tenant, s->row.id, "", "session.network", e,
			     "policy\t%s\n", name) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		s->row = before;
		free(copy);
		return -1;
	}
	free(s->policy);
	s->policy = copy;
	session_touch(s);
	return 0;
}
