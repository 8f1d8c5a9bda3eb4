/* core_recover.c - after a start: the sessions of the store, compared with the cells that exist.
 *
 *   in the store, and its cell answers     adopted; the step it was in is done again
 *   in the store, its cell is gone         a persistent one is kept without a cell; else stopped:
 * host_restart after a reboot, expired if its time was over, else crashed a cell without a session
 * in the store  ended: a cell of the pool, or one without a record
 *
 * A cell is found by its socket in RUN/cells; a cell without a socket ended with its channel.
 *
 * If something cannot be read now (no descriptor, a disk that fails), no session is ended because
 * of that: recovery fails as a whole and is done again a second later, for what is not restored
 * yet. */
#include "core_recover.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "execution.h"
#include "execution_adopt.h"
#include "live_cell.h"
#include "log.h"
#include "store_layer.h"
#include "quota.h"
#include "session.h"
#include "session_alloc.h"
#include "session_cold.h"
#include "session_disk.h"
#include "session_lifecycle.h"
#include "session_stop.h"
#include "session_stopped.h"
#include "session_timer.h"
#include "templates.h"
#include "tenant.h"

struct ids {
	char (*list)[STORE_ID_MAX];
	size_t n, size;
};

static void add_id(struct ids *ids, const char *id)
{
	if (ids->n == ids->size) {
		ids->size = ids->size == 0 ? 64 : 2 * ids->size;
		ids->list = realloc(ids->list, ids->size * sizeof(*ids->list));
		assert(ids->list != NULL);
	}
	(void)snprintf(ids->list[ids->n++], STORE_ID_MAX, "%s", id);
}

static int add_session(const struct store_session *row, void *cookie)
{
	add_id(cookie, row->id);
	return 0;
}

struct restoring {
	struct session *session;
	struct err *e;
	int result;
};

static int add_execution(const struct store_execution *row, void *cookie)
{
	struct restoring *r = cookie;

	r->result = execution_recover(r->session, row, r->e);
	return r->result < 0;
}

static int add_executions(struct core *c, struct session *s, struct err *e)
{
	struct restoring r = { .session = s, .e = e };

	if (store_execution_logs_size(c->store, s->row.id, &s->kept_bytes, e) < 0 ||
	    store_execution_each_live(c->store, s->row.id, add_execution, &r, e) < 0 ||
	    r.result < 0 ||
	    store_execution_each_open(c->store, s->row.id, add_execution, &r, e) < 0)
		return -1;
	return r.result;
}

/* The cell is gone, and what was running in it ended with it. */
static void end_without_cell(struct session *s, enum session_reason reason, const char *detail)
{
	live_cell_clean_up(&s->core->cells, s->row.id);
	if (s->row.state < SESSION_STOPPING)
		session_stop(s, reason, detail);
	session_stopped(s);
}

static void keep_without_cell(struct session *s, const char *why)
{
	live_cell_clean_up(&s->core->cells, s->row.id);
	session_cold_lost(s, why);
	if (s->tenant->row.disabled)
		session_stop(s, SESSION_DELETED, "the tenant was removed");
}

/* Does this process lack a resource, so that the cell may well be there? ENOSPC: epoll watches. */
static bool is_shortage(const struct err *e)
{
	return e->sys == EMFILE || e->sys == ENFILE || e->sys == ENOMEM || e->sys == ENOBUFS ||
	       e->sys == ENOSPC;
}

static int adopt(struct core *c, struct session *s, struct err *e)
{
	if (add_executions(c, s, e) < 0)
		return err_wrap(e, "executions");
	if (session_cold_restore(s)) {
		if (s->tenant->row.disabled)
			session_stop(s, SESSION_DELETED, "the tenant was removed");
		return 0;
	}
	if (strcmp(s->row.boot_id, c->boot_id) != 0) {
		if (session_is_kept(&s->row))
			keep_without_cell(s, "the machine was restarted");
		else
			end_without_cell(s, SESSION_HOST_RESTART, "the machine was restarted");
		return 0;
	}
	s->cell = live_cell_adopt(&c->cells, s->row.id,
				  s->row.state == SESSION_PAUSED || s->row.cold == COLD_CAPTURING,
				  &session_cell_events, s, e);
	if (s->cell != NULL) {
		session_adopted(s);
		if (s->tenant->row.disabled)
			session_stop(s, SESSION_DELETED, "the tenant was removed");
	} else if (is_shortage(e)) {
		return -1;
	} else if (session_is_kept(&s->row)) {
		keep_without_cell(s, "the cell was gone when the daemon restarted");
	} else if (session_timer_ends_cell(s)) {
		end_without_cell(s, SESSION_EXPIRED, "timeout reached");
	} else {
		end_without_cell(s, SESSION_CRASHED, "the cell was gone when the daemon restarted");
	}
	return 0;
}

static int restore(struct core *c, const char *id, struct err *e)
{
	struct store_session row;
	struct session *s;
	struct tenant *t;

	if (session_by_id(c, id) != NULL)
		return 0; /* restored by an earlier try */
	if (store_session_get(c->store, id, &row, e) < 0)
		return -1;
	t = tenant_find(c, row.tenant);
	store_session_release(&row);
	if (t == NULL)
		return err_set(e, ERR_NOT_FOUND, "session %s has no tenant", id);
	s = session_restore(c, t, id, e);
	if (s == NULL)
		return -1;
	if (adopt(c, s, e) == 0)
		return 0;
	quota_release(s);
	session_free(s);
	return -1;
}

static bool is_known(void *arg, const char *id)
{
	return session_by_id(arg, id) != NULL;
}

int core_recover(struct core *c, struct err *e)
{
	struct ids ids = { 0 };
	int result = store_session_each_live(c->store, add_session, &ids, e);

	for (size_t i = 0; i < ids.n && result == 0; i++)
		result = restore(c, ids.list[i], e);
	free(ids.list);
	if (result < 0 || cells_end_unknown(&c->cells, is_known, c, e) < 0)
		return -1;
	c->recovered = true;
	log_info("recovery finished", "sessions=%u of=%zu", c->live, ids.n);
	if (c->o.on_ready != NULL)
		c->o.on_ready(c->o.arg);
	if (store_layer_drop_stale(c->store, e) < 0)
		log_warn("layers of earlier requests stay", "error=%s", e->msg);
	templates_collect(c);
	templates_fill(c);
	if (c->o.has_storage)
		layers_collect(&c->layers, true, NULL);
	session_disk_collect(c);
	return 0;
}
