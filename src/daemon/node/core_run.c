/* core_run.c - sets the core up, runs its task of every second, and takes it down. The other files
 * rely on the order in core_new() and core_free(): the store and the folders first, then tenants,
 * then the parts of sessions. Sessions come last and go first.
 *
 * Recovery reads the ids first and restores the sessions afterwards, because restoring a session
 * writes to the store.
 */
#include "daemon/node/core_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_flood.h"
#include "daemon/audit/audit_checkpoint.h"
#include "daemon/cells/keeper_link.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_adopt.h"
#include "daemon/guest/memory_images.h"
#include "daemon/guest/root_images.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_private.h"
#include "daemon/output/log_removal.h"
#include "daemon/output/pipe_io.h"
#include "daemon/session/session.h"
#include "daemon/session/session_alloc.h"
#include "daemon/session/session_capture.h"
#include "daemon/session/session_disk.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_lifecycle.h"
#include "daemon/session/session_queue.h"
#include "daemon/session/session_room.h"
#include "daemon/session/session_sample.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"
#include "daemon/session/session_suspend.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/image_charge.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/retention.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* The ids of the live sessions, collected before any of them is restored. */
struct core_run_ids {
	char (*list)[STORE_ID_MAX];
	size_t n, size;
};

static void add_id(struct core_run_ids *ids, const char *id)
{
	if (ids->n == ids->size) {
		ids->size = ids->size == 0 ? 64 : 2 * ids->size;
		ids->list = realloc(ids->list, ids->size * sizeof(*ids->list));
		assert(ids->list != NULL);
	}
	str_copy(ids->list[ids->n++], id);
}

/* Only the id is kept: the row's texts are released after the callback. */
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

/* Live executions come back to be adopted. Ended ones with open output come back, too, because
 * children may still write. */
static int add_executions(struct core *c, struct session *s, struct err *e)
{
	struct restoring r = { .session = s, .e = e };

	if (store_execution_logs_size(c->store, s->row.id, &s->records.kept_bytes, e) < 0 ||
	    store_execution_each_live(c->store, s->row.id, add_execution, &r, e) < 0 ||
	    r.result < 0 ||
	    store_execution_each_open(c->store, s->row.id, add_execution, &r, e) < 0)
		return -1;
	return r.result;
}

/* End a session whose cell is gone, with everything that ran in it. */
static void end_without_cell(struct session *s, enum session_reason reason, const char *detail)
{
	live_cell_clean_up(&s->core->cells, s->row.id);
	if (s->row.state < SESSION_ENDING)
		session_stop(s, reason, detail);
	session_ended(s);
}

/* A persistent session survives the loss of its cell: it becomes cold. */
static void keep_without_cell(struct session *s, const char *why)
{
	live_cell_clean_up(&s->core->cells, s->row.id);
	session_cold_lost(s, why);
	if (s->tenant->row.disabled)
		session_stop(s, SESSION_DELETED, "the tenant was removed");
}

/* Does this process lack a resource, so that the cell may well exist? ENOSPC: epoll watches. */
static bool is_shortage(const struct err *e)
{
	return e->sys == EMFILE || e->sys == ENFILE || e->sys == ENOMEM || e->sys == ENOBUFS ||
	       e->sys == ENOSPC;
}

/* A session that cannot be adopted for lack of a resource fails recovery as a whole, to be tried
 * again: ending it would destroy a running cell. */
static int run_adopt(struct core *c, struct session *s, struct err *e)
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

/* Restore one session. Each try of a recovery skips the sessions restored by an earlier try. */
static int run_restore(struct core *c, const char *id, struct err *e)
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
	if (run_adopt(c, s, e) == 0)
		return 0;
	quota_release(s);
	session_free(s);
	return -1;
}

static bool is_known(void *arg, const char *id)
{
	return session_by_id(arg, id) != NULL;
}

/* Cells without a session are ended last, when all sessions are known: a cell may belong to any of
 * them. */
int core_recover(struct core *c, struct err *e)
{
	struct core_run_ids ids = { 0 };
	int result = store_session_each_live(c->store, add_session, &ids, e);

	for (size_t i = 0; i < ids.n && result == 0; i++)
		result = run_restore(c, ids.list[i], e);
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

#define SAMPLE_S 5
#define ROOM_S 10   /* the store takes its room on disk again */
#define SWEEP_S 600 /* disks without a session are searched for */

static void retry_one(struct session *s, void *arg)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: an execution frees no other */
		execution_retry_save(x);
		execution_retry_orders(x);
	}
	if (s->cell != NULL)
		live_cell_lease_retry(s->cell);
	session_parts_session_second(s);
	session_ended_retry(s);
}

static void try_recover(struct core *c)
{
	struct err e;

	if (!c->recovered && keeper_link_greeted(&c->cells.keeper) > 0 && core_recover(c, &e) < 0)
		log_error("recovery failed, tried again in a second", "error=%s", e.msg);
}

/* The limits of all sessions together may exceed the machine's memory, since sessions use less than
 * their limits. With less than a sixteenth of its memory available, no session is admitted. */
static void look_at_memory(struct core *c)
{
	char text[1024];
	ssize_t n = pread(c->meminfo_fd, text, sizeof(text) - 1, 0);
	const char *total, *available;

	text[n > 0 ? n : 0] = '\0';
	total = strstr(text, "MemTotal:");
	available = strstr(text, "MemAvailable:");
	c->memory_short = total != NULL && available != NULL &&
			  strtoull(available + strlen("MemAvailable:"), NULL, 10) <
				  strtoull(total + strlen("MemTotal:"), NULL, 10) / 16;
}

/* The supervisor may be busy with a restart of its own, so a refused request is repeated every
 * second. */
static void ask_for_keepers(struct core *c)
{
	for (unsigned slot = 0; slot < c->cells.keeper.nslots && c->keepers_wanted != 0; slot++)
		if ((c->keepers_wanted & 1U << slot) != 0 &&
		    (c->o.replace_keeper == NULL || c->o.replace_keeper(c->o.arg, slot)))
			c->keepers_wanted &= ~(1U << slot);
}

/* The order matters little here. Each task is bounded, or only starts a job. */
static void on_chores(struct loop_timer *t)
{
	struct core *c = t->arg;

	c->chores_done++;
	session_timer_check_clock(c);
	ask_for_keepers(c);
	try_recover(c);
	session_each(c, NULL, retry_one, NULL);
	session_queue_serve(c);
	templates_collect(c);
	templates_adapt(c);
	memory_images_shrink(c);
	session_parts_second(c);
	if (c->chores_done % SAMPLE_S == 0)
		session_sample_all(c);
	if (c->chores_done % ROOM_S == 0)
		store_keep_room(c->store);
	if (c->recovered && c->chores_done % SWEEP_S == 0)
		session_disk_collect(c);
	log_removal_retry(&c->removed_logs);
	retention_start(c);
	look_at_memory(c);
	audit_tick(c->audit);
	loop_timer_set(c->loop, t, clock_now_ns() + 1000 * CLOCK_MS);
}

/* Each keeper says HELLO once, at its start. The first one starts recovery. */
static void on_hello(void *arg, unsigned slot, const struct err *e)
{
	struct core *c = arg;

	if (e != NULL) {
		log_error("the keeper reported an error at its start", "slot=%u error=%s", slot,
			  e->msg);
		if (!c->keeper_seen && c->o.on_no_keeper != NULL)
			c->o.on_no_keeper(c->o.arg, e);
		return;
	}
	c->keeper_hung = false;
	c->keeper_seen = true;
	log_info("keeper ready", "slot=%u cgroup=%u rootless=%u freezer=%u", slot,
		 c->cells.keeper.restrictions.cgroup_version, c->cells.keeper.restrictions.rootless,
		 c->cells.keeper.restrictions.freezer);
	try_recover(c);
	templates_fill(c);
}

/* The supervisor kills the keeper and starts another one. Its cells are not affected. */
static void on_keeper_hung(void *arg, unsigned slot)
{
	struct core *c = arg;

	c->keeper_hung = true;
	c->keepers_wanted |= 1U << slot;
	ask_for_keepers(c);
}

static void on_storage_hello(void *arg, const struct err *e)
{
	struct core *c = arg;

	c->storage_cannot = e != NULL;
	if (e != NULL)
		log_error("cordon-storage reported an error at its start", "error=%s", e->msg);
	else
		log_info("storage ready", "");
	if (!c->recovered || e != NULL)
		return;
	session_disk_collect(c);		/* disks of killed sessions */
	layers_collect(&c->layers, true, NULL); /* of requests that the one before had */
}

static void on_storage_hung(void *arg)
{
	struct core *c = arg;

	if (c->o.replace_storage != NULL)
		c->o.replace_storage(c->o.arg);
}

/* Retention waits until the space of its removed logs is free. */
static void on_old_logs_gone(void *arg)
{
	retention_start(arg);
}

/* Folders are opened once: later paths are relative to their descriptors, so a rename of the state
 * folder changes nothing. */
static int open_folder(int at, const char *name, int *ret_fd, struct err *e)
{
	if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make folder %s", name);
	*ret_fd = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (*ret_fd < 0)
		return err_sys(e, "open folder %s", name);
	return 0;
}

/* A record of the node's log. */
static int note_node(struct core *c, const char *type, struct err *e)
{
	const struct audit_record record = { .tenant = AUDIT_NODE, .type = type };

	return audit_append(c->audit, &record, e, "program\t%s\nboot\t%s\n", CORDON_VERSION,
			    c->boot_id);
}

void core_note_program(struct core *c, const char *program, unsigned slot)
{
	const struct audit_record record = { .tenant = AUDIT_NODE, .type = "node.program" };
	struct err e;

	if (audit_append(c->audit, &record, &e, "program\t%s\nslot\t%u\n", program, slot) < 0)
		log_error("a record of the audit log could not be written", "error=%s", e.msg);
}

/* After a failure core_free() takes down the half of the core that exists, so every member must be
 * valid for it from the start. */
struct core *core_new(struct loop *l, struct store *s, const struct core_options *o, struct err *e)
{
	struct core *c = calloc(1, sizeof(*c));
	ssize_t n;

	assert(c != NULL);
	c->loop = l;
	c->store = s;
	c->o = *o;
	c->output_fd = c->removed_logs.removed_fd = -1;
	c->removed_logs.on_old_gone = on_old_logs_gone;
	c->removed_logs.arg = c;
	c->started_ns = clock_now_ns();
	c->clock_ahead_ms = (int64_t)core_now_ms() - (int64_t)(c->started_ns / CLOCK_MS);
	c->meminfo_fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	jobs_init(&c->jobs, l);
	cells_init(&c->cells, l, o->nkeepers == 0 ? 1 : o->nkeepers);
	c->cells.watch = o->config->refused_calls;
	c->cells.unattended_ms = o->config->unattended_timeout_ms;
	c->cells.cgroups = &c->o.cgroups;
	c->cells.keeper.on_hello = on_hello;
	c->cells.keeper.on_hung = on_keeper_hung;
	c->cells.keeper.timeout_ms = o->config->keeper_timeout_ms;
	c->cells.keeper.arg = c;
	storage_link_init(&c->storage, l);
	c->disk_list_fd = -1;
	c->storage.on_hello = on_storage_hello;
	c->storage.on_hung = on_storage_hung;
	c->storage.arg = c;
	layers_init(&c->layers, l, c->store);
	c->layers.link = o->has_storage ? &c->storage : NULL;
	c->layers.state_fd = o->state_fd;
	c->layers.reserve_percent = o->config->storage_reserve;
	c->storage.reserve_percent = (uint32_t)o->config->storage_reserve;
	c->next_capture = (struct loop_task){ .on_run = session_capture_start_next, .arg = c };
	c->notify_listeners = (struct loop_task){ .on_run = event_log_on_notify, .arg = c };
	c->chores = (struct loop_timer){ .on_expire = on_chores, .arg = c };
	c->write_ended = (struct loop_timer){ .on_expire = session_ended_on_timer, .arg = c };
	c->queue_timer = (struct loop_timer){ .on_expire = session_queue_on_timer, .arg = c };
	retention_init(c);
	session_room_setup(c);
	c->audit = audit_new(&(struct audit_options){ .loop = l,
						      .store = s,
						      .jobs = &c->jobs,
						      .work = &c->work,
						      .config = o->config,
						      .notary = o->notary },
			     e);
	core_metrics_setup();
	if (c->audit == NULL) {
		core_free(c);
		return NULL;
	}
	if (c->meminfo_fd < 0) {
		/* Without it no session would be refused for lack of memory. */
		(void)err_sys(e, "open /proc/meminfo");
		core_free(c);
		return NULL;
	}
	n = io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", c->boot_id,
			 sizeof(c->boot_id), e);
	if (n < 0 || pipe_io_setup(e) < 0 ||
	    open_folder(o->run_fd, "cells", &c->cells.dir_fd, e) < 0 ||
	    open_folder(o->state_fd, "output", &c->output_fd, e) < 0 ||
	    log_removal_setup(&c->removed_logs, &c->jobs, c->output_fd, e) < 0 ||
	    tenant_load_all(c, e) < 0 || tenant_first(c, e) < 0 || templates_setup(c, e) < 0 ||
	    session_mask_setup(c, e) < 0 || session_parts_setup(c, e) < 0) {
		core_free(c);
		return NULL;
	}
	tenant_remove_rest(c);
	c->boot_id[strcspn(c->boot_id, "\n")] = '\0';
	if (note_node(c, "node.start", e) < 0) {
		core_free(c);
		return NULL;
	}
	loop_timer_set(l, &c->chores, clock_now_ns() + 1000 * CLOCK_MS);
	return c;
}

/* The cell is detached, not ended: the next daemon adopts it. */
static void leave_one(struct session *s, void *arg)
{
	struct err e;

	(void)err_set_reason(&e, REASON_UNAVAILABLE, "the server ends");
	if (s->cell != NULL)
		live_cell_detach(s->cell);
	s->cell = NULL;
	session_ops_free(s, &e);
	session_free(s);
}

/* Sessions are left before the parts and the links are released, because their callbacks use both.
 */
void core_free(struct core *c)
{
	if (c == NULL)
		return;
	session_ended_write(c);
	c->draining = true; /* nothing begins because something else ends */
	session_each(c, NULL, leave_one, NULL);
	templates_free(c);
	session_parts_release(c);
	loop_timer_cancel(c->loop, &c->chores);
	loop_timer_cancel(c->loop, &c->queue_timer);
	jobs_release(&c->jobs);
	loop_task_cancel(c->loop, &c->next_capture);
	loop_task_cancel(c->loop, &c->notify_listeners);
	loop_task_cancel(c->loop, &c->revoke);
	mask_free(c->mask);
	memory_image_free_all(c);
	image_charge_free_all(c);
	root_image_free_all(c);
	cells_release(&c->cells);
	layers_release(&c->layers);
	session_disk_collect_end(c);
	session_room_release(c);
	storage_link_release(&c->storage);
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		log_removal_free(&t->removal);
	log_removal_release(&c->removed_logs);
	io_close_all(&c->output_fd, 1);
	io_close_all(&c->meminfo_fd, 1);
	audit_free(c->audit); /* its job is in the list of a tenant */
	while (c->tenants != NULL) {
		struct tenant *t = c->tenants;

		c->tenants = t->next;
		free(t->policy);
		key_sessions_free(t);
		free(t);
	}
	free(c);
}

struct fd_reserve *core_reserve(struct core *c)
{
	return &c->cells.fds.reserve;
}

/* A replaced keeper is no longer wanted from the supervisor. */
int core_set_keeper(struct core *c, unsigned slot, int channel_fd, struct err *e)
{
	if (slot < KEEPER_SLOTS_MAX)
		c->keepers_wanted &= ~(1U << slot);
	return keeper_link_attach(&c->cells.keeper, slot, channel_fd, e);
}

int core_set_storage(struct core *c, int channel_fd, struct err *e)
{
	return storage_link_attach(&c->storage, channel_fd, e);
}

struct layers *core_layers(struct core *c)
{
	return &c->layers;
}

struct storage_link *core_storage(struct core *c)
{
	return &c->storage;
}

bool core_fit(const struct core *c, const char **ret_why)
{
	if (!core_ready(c, ret_why))
		return false;
	/* A cordon-storage that cannot work does not keep sessions in memory from being made. */
	if (c->o.has_storage && !storage_link_is_ready(&c->storage) && !c->storage_cannot) {
		*ret_why = "cordon-storage is not running";
		return false;
	}
	return session_parts_fit(c, ret_why);
}

void core_drain(struct core *c)
{
	struct err e;

	audit_flood_flush(c->audit);
	if (!c->draining && note_node(c, "node.stop", &e) < 0)
		log_error("a record of the audit log could not be written", "error=%s", e.msg);
	c->draining = true;
	audit_hurry(c->audit);
	templates_close(c);
}

/* An old daemon waits for this in an upgrade, so that no cell is left half removed. */
bool core_drained(const struct core *c)
{
	return c->cells.ending == 0 && c->ended == NULL && templates_are_idle(c) &&
	       audit_is_idle(c->audit);
}

unsigned core_cells_ending(const struct core *c)
{
	return c->cells.ending;
}

int core_metrics_write(struct core *c, struct buf *b, struct err *e)
{
	unsigned sessions[SESSION_STATES];
	struct core_metrics_pool pools;

	session_count(c, sessions);
	templates_pools(c, &pools);
	core_metrics_node(c, sessions, &pools);
	session_parts_metrics(c, b);
	core_metrics_text(c, b);
	return buf_check(b, e);
}
