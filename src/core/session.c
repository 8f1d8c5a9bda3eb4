/* session.c - the table of live sessions, and how one begins. What happens to it then is in
 * session_lifecycle.c. */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "allow.h"
#include "clock.h"
#include "core_metrics.h"
#include "core_private.h"
#include "dial.h"
#include "execution.h"
#include "execution_kill.h"
#include "execution_prepare.h"
#include "fd_budget.h"
#include "kept_diff.h"
#include "key_sessions.h"
#include "list.h"
#include "log.h"
#include "quota.h"
#include "rand.h"
#include "session_lifecycle.h"
#include "session_parts.h"
#include "session_pause.h"
#include "session_spec.h"
#include "templates.h"
#include "tenant.h"

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

void session_free(struct session *s)
{
	struct completions running = { 0 }, paused = { 0 }, over = { 0 };
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s has ended", s->row.id);
	completions_move(&s->when_running, &running);
	completions_move(&s->when_paused, &paused);
	completions_move(&s->when_over, &over);
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		execution_prepare_cancel(x); /* it waits for the parts */
	session_parts_free(s, &e);
	kept_diff_cancel(s);
	key_sessions_release(s);
	if (s->listed)
		LIST_REMOVE(s);
	loop_timer_cancel(s->core->loop, &s->timer);
	loop_task_cancel(s->core->loop, &s->tell);
	while (s->executions != NULL)
		execution_free(s->executions);
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	free(s->samples);
	free(s->past);
	free(s->texts);
	free(s->network);
	free(s->policy);
	mask_free(s->mask);
	template_unuse(s->template);
	store_session_release(&s->row);
	free(s);
	/* None should be left; one that were would point into the session. */
	completions_end_all(&running, &e);
	completions_end_all(&paused, &e);
	completions_end_all(&over, &e);
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
	(void)err_set_reason(&e, REASON_GONE, "session %s was stopped", s->row.id);
	completion_end_soon(c, s->core->loop, &e);
}

struct tenant *session_tenant(const struct session *s)
{
	return s->tenant;
}

/* Before recovery the store's word on a session is not the last. */
static int not_ready(const char *why, struct err *e)
{
	return err_set_reason(e, REASON_UNAVAILABLE, "not ready: %s", why);
}

struct session *session_live(struct core *c, const struct tenant *t, const char *id, struct err *e)
{
	struct session *s = session_by_id(c, id);
	struct store_session row;

	if (s != NULL && s->tenant == t && s->row.state < SESSION_STOPPING)
		return s;
	if (!c->recovered) {
		(void)not_ready("recovering", e);
		return NULL;
	}
	if (session_get(c, t, id, &row, e) < 0)
		return NULL;
	(void)err_set_reason(e, REASON_GONE, "session %s is %s (%s)", id,
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

const struct store_template *session_template(const struct session *s)
{
	return s->template == NULL ? NULL : template_row(s->template);
}

const struct cell_level *session_level(const struct session *s)
{
	return cell_level_of(s->row.level);
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
			ret[s->row.state]++;
}

void session_each(struct core *c, const struct tenant *t, void (*see)(struct session *s, void *arg),
		  void *arg)
{
	for (unsigned i = 0; i < CORE_BUCKETS; i++)
		for (struct session *s = c->sessions[i], *next; s != NULL; s = next) {
			next = s->next;
			if (t == NULL || s->tenant == t)
				see(s, arg);
		}
}

static void on_tell_running(struct loop_task *t)
{
	struct session *s = t->arg;

	if (!session_usable(s))
		return;
	if (s->starting)
		core_metrics_created(clock_now_ns() - s->created_ns, s->from_pool);
	s->starting = false;
	completions_end_all(&s->when_running, NULL);
}

static void on_queue_timeout(struct loop_timer *t)
{
	struct session *s = t->arg;
	struct completions told = { 0 };
	struct err e;

	quota_unqueue(s);
	(void)err_set_reason(&e, REASON_QUEUE_TIMEOUT, "no room within %llu ms",
			     (unsigned long long)quota_queue_ms(s));
	core_metrics_refused(e.reason);
	completions_move(&s->when_running, &told);
	session_free(s);
	completions_end_all(&told, &e);
}

static struct session *new_session(struct core *c, struct tenant *t)
{
	struct session *s = calloc(1, sizeof(*s));

	assert(s != NULL);
	s->core = c;
	s->tenant = t;
	s->created_ns = s->used_ns = clock_now_ns();
	s->tell = (struct loop_task){ .on_run = on_tell_running, .arg = s };
	s->timer = (struct loop_timer){ .on_expire = on_queue_timeout, .arg = s };
	return s;
}

static int find_template(struct session *s, const struct session_spec *spec, struct err *e)
{
	const char *name = spec->template != NULL && *spec->template != '\0'
				   ? spec->template
				   : s->core->o.config->template;

	s->template = template_use(templates_find(s->core, s->tenant, name));
	if (s->template == NULL)
		return err_set(e, ERR_NOT_FOUND, "template %.60s: not found", name);
	return 0;
}

int session_create(struct core *c, struct tenant *t, const struct session_spec *spec,
		   struct completion *w, struct session **ret, unsigned *ret_retry_s, struct err *e)
{
	struct session *s;
	struct store_allow key;
	const char *why;
	int admitted;

	*ret_retry_s = 1;
	if (!core_ready(c, &why))
		return not_ready(why, e);
	if (tenant_check(t, e) < 0 || fd_budget_check(&c->cells.fds, e) < 0)
		return -1;
	core_check_clock(c);
	s = new_session(c, t);
	session_set_actor(s, spec->actor);
	if (find_template(s, spec, e) < 0 ||
	    session_spec_check(c, s->template, spec, &s->row, &s->texts, e) < 0 ||
	    allow_session(c, t, spec, &s->row, &key, e) < 0 ||
	    tenant_change_room(t, strlen(s->row.policy), e) < 0) {
		session_free(s);
		return -1;
	}
	(void)snprintf(s->row.tenant, sizeof(s->row.tenant), "%s", t->row.id);
	(void)snprintf(s->row.creator_key, sizeof(s->row.creator_key), "%s", s->actor.key_id);
	s->key_max = key.sessions;
	s->key_per_minute = key.creates_per_minute;
	if (session_parts_check(s, e) < 0) {
		session_free(s);
		return -1;
	}
	admitted = quota_admit(s, ret_retry_s, e);
	if (admitted < 0) {
		core_metrics_refused(e->reason);
		session_free(s);
		return -1;
	}
	*ret = s;
	completion_begin(w, c->loop, &s->when_running);
	if (admitted == 0) {
		session_begin(s);
		return 0;
	}
	loop_timer_set(c->loop, &s->timer, clock_now_ns() + quota_queue_ms(s) * CLOCK_MS);
	quota_queue(s);
	return 0;
}

/* A session that an earlier daemon left. Its texts are the row's own. */
struct session *session_restore(struct core *c, struct tenant *t, const char *id, struct err *e)
{
	struct session *s = new_session(c, t);

	if (store_session_get(c->store, id, &s->row, e) < 0) {
		session_free(s);
		return NULL;
	}
	/* Those of before version 17 of the store name no version: they were made from the host's.
	 */
	s->template = template_use(s->row.template_id[0] != '\0'
					   ? templates_by_id(c, s->row.template_id)
					   : templates_find(c, NULL, s->row.template));
	s->restored = true;
	session_list_in(s);
	quota_count(s);
	s->key_counted = true;
	return s;
}

int session_delete(struct core *c, const struct tenant *t, const char *id,
		   const struct store_actor *who, struct err *e)
{
	struct session *s = session_by_id(c, id);
	struct store_session row;

	if (s != NULL && s->tenant == t) {
		session_stop_for(s, who, SESSION_DELETED, "deleted by a client");
		return 0;
	}
	if (!c->recovered)
		return not_ready("recovering", e);
	if (session_get(c, t, id, &row, e) < 0)
		return -1;
	store_session_release(&row);
	return 0;
}
