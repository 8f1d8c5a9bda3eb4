/* tenant_admin.c - removes a tenant (tenant.h): at once for its clients, in pieces for its sessions
 * and secrets.
 *
 * When tenant_remove() returns, its keys are not accepted, its streams end, sessions in its queue
 * are refused, and no session can be made for it. A job of the tenant (jobs.h) then stops its
 * sessions and deletes its secrets, one in each piece. If the daemon is killed in between, the next
 * one stops the sessions when it adopts them (core_run.c) and continues with the rest. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_queue.h"
#include "daemon/session/session_stop.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/grant.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"

static void on_policy_changed(struct session *s, void *arg)
{
	if (s->row.state < SESSION_ENDING)
		session_parts_changed(s);
}

int tenant_set_policy(struct core *c, struct tenant *t, const char *document,
		      const struct store_actor *who, struct err *e)
{
	char *copy = strdup(document);

	if (copy == NULL)
		return err_sys(e, "allocate");
	if (store_begin(c->store, e) < 0 ||
	    store_tenant_set_policy(c->store, t->row.id, document, e) < 0 ||
	    access_events_policy(c, who, &t->row, document, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		free(copy);
		return -1;
	}
	free(t->policy);
	t->policy = copy;
	t->policy_changes++;
	session_each(c, t, on_policy_changed, NULL);
	return 0;
}

int tenant_create(struct core *c, struct store_tenant *row, const struct store_actor *who,
		  struct err *e)
{
	rand_id("ten_", row->id, sizeof(row->id));
	row->created_ms = core_now_ms();
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_insert(c->store, row, e) < 0 ||
	    access_events_tenant(c, who, "tenant.created", row, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	tenant_add(c, row);
	return 0;
}

/* Sessions in queues may fit after a change, so the queues are served. */
int tenant_update(struct core *c, struct tenant *t, const struct store_tenant *row,
		  const struct store_actor *who, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_update(c->store, row, e) < 0 ||
	    access_events_changed(c, who, &t->row, row, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	t->row = *row;
	tenant_forget_keys();
	session_queue_serve(c);
	return 0;
}

/* Write the file whole or not at all: a key of which only half is in it would be lost. */
static int write_first_key(struct core *c, const char *key, struct err *e)
{
	OWN_FD fd = openat(c->o.state_fd, "first.key.new",
			   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, "make first.key");
	if (io_write_all(fd, key, TENANT_KEY_LEN, e) < 0 || io_write_all(fd, "\n", 1, e) < 0)
		return -1;
	if (fsync(fd) < 0 ||
	    renameat(c->o.state_fd, "first.key.new", c->o.state_fd, "first.key") < 0)
		return err_sys(e, "write first.key");
	return 0;
}

int tenant_first(struct core *c, struct err *e)
{
	const struct tenant_key_spec spec = { .name = "first", .scopes = TENANT_SCOPES };
	struct store_tenant row = { .name = "default", .is_operator = true };
	struct tenant *t = c->tenants;
	char key[TENANT_KEY_LEN + 1], done[8];
	struct store_key k;

	while (t != NULL && !t->row.is_operator)
		t = t->next;
	if (t == NULL) {
		if (tenant_create(c, &row, NULL, e) < 0)
			return -1;
		t = tenant_find(c, row.id);
		assert(t != NULL);
	}
	if (store_meta_get(c->store, "first_key", done, sizeof(done), e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	*e = (struct err){ 0 };
	/* If the daemon is killed in between, the next start makes another key: the file has the
	 * last one. */
	if (tenant_key_create(c, t, &spec, NULL, &k, key, e) < 0 ||
	    write_first_key(c, key, e) < 0 || store_meta_set(c->store, "first_key", "yes", e) < 0)
		return -1;
	explicit_bzero(key, sizeof(key));
	log_info("first key written", "file=%s", "first.key");
	return 0;
}

/* End the next session, unless it is ending already. False: none is left. */
static bool stop_next(struct core *c, struct tenant *t)
{
	for (; t->end.bucket < CORE_BUCKETS; t->end.bucket++)
		for (struct session *s = c->sessions[t->end.bucket]; s != NULL; s = s->next)
			if (s->tenant == t && s->row.state < SESSION_ENDING) {
				session_stop(s, SESSION_DELETED, "the tenant was removed");
				return true;
			}
	return false;
}

/* One session in a piece, then one thing of another part. Started again after a restart, by
 * tenant_remove_rest(). */
static bool on_piece(struct job *j)
{
	struct tenant *t = j->arg;
	struct core *c = t->end.core;

	return stop_next(c, t) || session_parts_delete_one(c, t);
}

static void tenant_admin_start(struct core *c, struct tenant *t)
{
	t->end.core = c;
	t->end.bucket = 0;
	t->end.job.on_piece = on_piece;
	t->end.job.arg = t;
	core_job_add(c, t, &t->end.job);
}

/* The event has the name that the tenant had. */
static int tenant_admin_disable(struct core *c, const struct tenant *t,
				const struct store_tenant *row, const struct store_actor *who,
				struct err *e)
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
	/* Another tenant may use the name. The row stays as long as rows of its sessions. */
	(void)snprintf(row.name, sizeof(row.name), "%s was %.*s", row.id,
		       (int)(sizeof(row.name) - sizeof(row.id) - 8), t->row.name);
	if (tenant_admin_disable(c, t, &row, who, e) < 0)
		return -1;
	t->row = row;
	tenant_forget_keys();
	IGNORED(store_key_revoke_all(c->store, row.id, core_now_ms(), e),
		"the tenant is disabled, so its keys are not accepted anyway");
	(void)err_set(&gone, ERR_DENIED, "the tenant was removed");
	session_queue_refuse_all(t, &gone);
	grant_revoke(c, t, NULL);
	tenant_admin_start(c, t);
	return 0;
}

void tenant_remove_rest(struct core *c)
{
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		if (t->row.disabled)
			tenant_admin_start(c, t);
}
