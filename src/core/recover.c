/* recover.c - after a start: what the store says, compared with what there is.
 *
 *   in the store, and its cell answers     adopted; the step it was in is done again
 *   in the store, its cell is gone         stopped: host_restart after a reboot, else crashed
 *   a cell that no session explains        ended: a pool cell, or one whose record was never written
 *
 * A cell is found by its socket in RUN/cells. One that has none died with its channel. */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "inside.h"
#include "log.h"

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

static int add_execution(const struct store_execution *row, void *cookie)
{
	execution_recover(cookie, row);
	return 0;
}

/* Its cell is gone: what was running in it ended with it. */
static void bury(struct session *s, enum session_reason reason, const char *detail)
{
	live_cell_remains(s->core, s->row.id);
	if (s->row.state < SESSION_STOPPING)
		session_stop(s, reason, detail);
	else
		for (struct execution *x = s->executions, *next; x != NULL; x = next) {
			next = x->next;
			execution_lost(x);
		}
	session_stopped(s);
}

static void restore(struct core *c, const char *id)
{
	struct store_session row;
	struct session *s = NULL;
	struct tenant *t;
	struct err e;

	if (store_session_get(c->store, id, &row, &e) < 0)
		return;
	t = tenant_find(c, row.tenant);
	store_session_release(&row);
	if (t == NULL || (s = session_restore(c, t, id, &e)) == NULL) {
		log_error("session not restored", "session_id=%s error=%s", id,
			  t == NULL ? "no tenant" : e.msg);
		return;
	}
	if (store_execution_each_live(c->store, id, add_execution, s, &e) < 0)
		log_warn("executions not restored", "session_id=%s error=%s", id, e.msg);
	if (strcmp(s->row.boot_id, c->boot_id) != 0) {
		bury(s, SESSION_HOST_RESTART, "the machine was restarted");
		return;
	}
	s->cell = live_cell_adopt(c, id, s->row.state == SESSION_PAUSED, &session_cell_events, s,
				  &e);
	if (s->cell == NULL) {
		bury(s, SESSION_CRASHED, "its cell was gone when the daemon came back");
		return;
	}
	session_adopted(s);
}

/* Sockets in RUN/cells of which no session knows. */
static int end_strangers(struct core *c, struct err *e)
{
	int fd = openat(c->cells_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (dir == NULL)
		return err_sys(e, "read the folder of cells");
	while ((d = readdir(dir)) != NULL) {
		char id[KEEPER_ID_MAX];
		size_t n = strcspn(d->d_name, ".");
		struct live_cell *cell;
		struct err ignored;

		if (n == 0 || n >= sizeof(id) || strcmp(d->d_name + n, ".sock") != 0)
			continue;
		(void)snprintf(id, sizeof(id), "%.*s", (int)n, d->d_name);
		if (session_by_id(c, id) != NULL)
			continue;
		cell = live_cell_adopt(c, id, true, &core_orphan_events, NULL, &ignored);
		if (cell != NULL)
			live_cell_end(cell);
		else
			live_cell_remains(c, id);
	}
	(void)closedir(dir);
	return 0;
}

int core_recover(struct core *c, struct err *e)
{
	struct ids ids = { 0 };
	int result;

	if (store_session_each_live(c->store, add_session, &ids, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++)
		restore(c, ids.list[i]);
	free(ids.list);
	result = end_strangers(c, e);
	c->recovered = result == 0;
	log_info("recovered", "sessions=%u of=%zu", c->live, ids.n);
	pool_fill(c->pool);
	return result;
}
