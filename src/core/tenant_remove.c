/* tenant_remove.c - removes a tenant (tenant.h): at once for its clients, in pieces for what it
 * had.
 *
 * When tenant_remove() returns, its keys are not accepted, its streams end, sessions in its queue
 * are refused, and no session can be made for it. A job of the tenant (jobs.h) then stops its
 * sessions and deletes its secrets, one in each piece. If the daemon is killed in between, the next
 * one stops the sessions when it adopts them (core_recover.c) and goes on with the rest. */
#include <stdio.h>

#include "access_events.h"
#include "core.h"
#include "core_private.h"
#include "grant.h"
#include "session_parts.h"
#include "session_queue.h"
#include "session_stop.h"
#include "tenant.h"

/* Stops the next session that is not stopping yet. False: there is none. */
static bool stop_next(struct core *c, struct tenant *t)
{
	for (; t->end.bucket < CORE_BUCKETS; t->end.bucket++)
		for (struct session *s = c->sessions[t->end.bucket]; s != NULL; s = s->next)
			if (s->tenant == t && s->row.state < SESSION_STOPPING) {
				session_stop(s, SESSION_DELETED, "the tenant was removed");
				return true;
			}
	return false;
}

static bool on_piece(struct job *j)
{
	struct tenant *t = j->arg;
	struct core *c = t->end.core;

	return stop_next(c, t) || session_parts_delete_one(c, t);
}

static void start(struct core *c, struct tenant *t)
{
	t->end.core = c;
	t->end.bucket = 0;
	t->end.job.on_piece = on_piece;
	t->end.job.arg = t;
	core_job_add(c, t, &t->end.job);
}

/* The event has the name that the tenant had. */
static int disable(struct core *c, const struct tenant *t, const struct store_tenant *row,
		   const struct store_actor *who, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_update(c->store, row, e) < 0 ||
	    access_events_tenant(c, who, "tenant.removed", &t->row, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	return 0;
}

int tenant_remove(struct core *c, struct tenant *t, const struct store_actor *who, struct err *e)
{
	struct store_tenant row = t->row;
	struct err gone;

	if (row.is_operator)
		return err_set(e, ERR_CONFLICT, "the operator's tenant cannot be removed");
	row.disabled = true;
	/* Its name can be used for another tenant; its row stays as long as there are rows of its
	 * sessions. */
	(void)snprintf(row.name, sizeof(row.name), "%s was %.*s", row.id,
		       (int)(sizeof(row.name) - sizeof(row.id) - 8), t->row.name);
	if (disable(c, t, &row, who, e) < 0)
		return -1;
	t->row = row;
	tenant_forget_keys();
	IGNORED(store_key_revoke_all(c->store, row.id, core_now_ms(), e),
		"the tenant is disabled, so its keys are not accepted anyway");
	(void)err_set(&gone, ERR_DENIED, "the tenant was removed");
	session_queue_refuse_all(t, &gone);
	grant_revoke(c, t, NULL);
	start(c, t);
	return 0;
}

void tenant_remove_rest(struct core *c)
{
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		if (t->row.disabled)
			start(c, t);
}
