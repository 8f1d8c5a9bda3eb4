/* session.c - the table of live sessions, and what other files read of a session. It depends on no
 * other file about sessions: those that change one are session_create.c, session_lifecycle.c,
 * session_pause.c, session_settings.c and session_stop.c. */
#include "session.h"

#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "list.h"
#include "session_parts.h"

static unsigned bucket(const char *id)
{
	uint32_t h = 2166136261U; /* FNV-1a; ids are random, so clients cannot choose collisions */

	for (; *id != '\0'; id++)
		h = (h ^ (uint8_t)*id) * 16777619U;
	return h % CORE_BUCKETS;
}

struct session *session_by_id(struct core *c, const char *id)
{
	struct session *s = c->sessions[bucket(id)];

	while (s != NULL && strcmp(s->row.id, id) != 0)
		s = s->next;
	return s;
}

void session_list_in(struct session *s)
{
	LIST_PUSH(&s->core->sessions[bucket(s->row.id)], s);
	s->listed = true;
}

struct session *session_find(struct core *c, const char *id)
{
	struct session *s = session_by_id(c, id);

	return s != NULL && s->row.state < SESSION_STOPPING ? s : NULL;
}

const struct store_session *session_now(struct core *c, const struct store_session *row,
					struct session **ret_live)
{
	struct session *s = row->ended_ms != 0 ? NULL : session_by_id(c, row->id);

	*ret_live = s != NULL && s->row.state < SESSION_STOPPING ? s : NULL;
	return s == NULL ? row : &s->row;
}

void session_when_over(struct session *s, struct completion *c)
{
	struct err e;

	if (s->row.state < SESSION_STOPPING) {
		completion_begin(c, s->core->loop, &s->when_over);
		return;
	}
	(void)err_set_reason(&e, session_gone_reason(&s->row), "session %s was stopped", s->row.id);
	completion_end_soon(c, s->core->loop, &e);
}

struct tenant *session_tenant(const struct session *s)
{
	return s->tenant;
}

struct session *session_live(struct core *c, const struct tenant *t, const char *id, struct err *e)
{
	struct session *s = session_by_id(c, id);
	struct store_session row;

	if (s != NULL && s->tenant == t && s->row.state < SESSION_STOPPING)
		return s;
	if (!c->recovered) {
		/* Before recovery the row in the store may not be the last word. */
		(void)err_set_reason(e, REASON_UNAVAILABLE, "not ready: recovering");
		return NULL;
	}
	if (session_get(c, t, id, &row, e) < 0)
		return NULL;
	(void)err_set_reason(e, session_gone_reason(&row), "session %s is %s (%s)", id,
			     session_state_name((enum session_state)row.state),
			     session_reason_name((enum session_reason)row.reason));
	store_session_release(&row);
	return NULL;
}

int session_get(struct core *c, const struct tenant *t, const char *id, struct store_session *ret,
		struct err *e)
{
	struct session *s = session_by_id(c, id);

	if (s != NULL && s->tenant == t) {
		*ret = s->row; /* its texts are the session's */
		ret->owned = NULL;
		return 0;
	}
	if (s != NULL || store_session_get(c->store, id, ret, e) < 0) {
		if (s == NULL && e->code != ERR_NOT_FOUND)
			return -1;
		return err_set(e, ERR_NOT_FOUND, "no session %.40s", id);
	}
	if (strcmp(ret->tenant, t->row.id) == 0)
		return 0;
	store_session_release(ret);
	return err_set(e, ERR_NOT_FOUND, "no session %.40s", id);
}

const struct store_session *session_row(const struct session *s)
{
	return &s->row;
}

struct live_cell *session_cell(const struct session *s)
{
	return s->cell;
}

struct store_usage *session_usage(struct session *s)
{
	return &s->row.usage;
}

void session_set_secrets(struct session *s, const char *lines)
{
	s->row.secrets = lines;
}

const struct store_actor *session_actor(const struct session *s)
{
	return &s->actor;
}

unsigned session_executions_running(const struct session *s)
{
	return s->running;
}

struct core *session_core(const struct session *s)
{
	return s->core;
}

bool session_goes_on(const struct session *s)
{
	return s->goes_on;
}

struct session *session_source(const struct session *s)
{
	struct session *source = s->goes_on ? session_by_id(s->core, s->source) : NULL;

	return source != NULL && source->tenant == s->tenant ? source : NULL;
}

const struct cell_level *session_level(const struct session *s)
{
	return cell_level_of(s->row.level);
}

const char *session_guest_word(const struct session *s)
{
	if (session_level(s)->engine == CELL_ENGINE_NONE || s->cell == NULL ||
	    s->row.state != SESSION_RUNNING)
		return NULL;
	return s->cell->guest_state == BOOT_GUEST_UNRESPONSIVE ? "unresponsive" : "running";
}

int session_level_check(const struct session *s, enum cell_ability ability, const char *what,
			struct err *e)
{
	const struct cell_level *level = session_level(s);

	if (cell_level_can(level, ability))
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "%s: not possible at level %s", what, level->name);
}

void session_count(const struct core *c, unsigned ret[SESSION_STATES])
{
	memset(ret, 0, SESSION_STATES * sizeof(ret[0]));
	for (unsigned i = 0; i < CORE_BUCKETS; i++)
		for (const struct session *s = c->sessions[i]; s != NULL; s = s->next)
			if (s->row.state != SESSION_STOPPED) /* it has ended */
				ret[session_shown_state(&s->row)]++;
}

void session_each(struct core *c, const struct tenant *t, void (*see)(struct session *s, void *arg),
		  void *arg)
{
	for (unsigned i = 0; i < CORE_BUCKETS; i++)
		for (struct session *s = c->sessions[i], *next; s != NULL; s = next) {
			/* alone: sessions are freed from a timer; see() may end its own at once */
			next = s->next;
			if (t == NULL || s->tenant == t)
				see(s, arg);
		}
}

void session_each_queued(const struct tenant *t, void (*see)(struct session *s, void *arg),
			 void *arg)
{
	for (struct session *s = t->queue, *next; s != NULL; s = next) {
		next = s->next; /* alone: see() ends its own at most */
		see(s, arg);
	}
}

bool session_is_usable(const struct session *s)
{
	return s->row.state == SESSION_RUNNING && s->cell->synced && session_parts_ready(s);
}

void session_lose_executions(struct session *s)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: an execution that is lost is freed from the loop */
		execution_lost(x);
	}
}
