/* core_run.c - sets the core up, runs what it does once a second, and takes it down. The order in
 * core_new() and core_free() is what the other files rely on: the store and the folders first, then
 * tenants, then the parts of sessions; sessions last in, first out. */
#include "core_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "core_metrics.h"
#include "core_private.h"
#include "held_memory.h"
#include "memory_images.h"
#include "core_recover.h"
#include "event_log.h"
#include "execution.h"
#include "io.h"
#include "keeper_link.h"
#include "key_sessions.h"
#include "live_cell.h"
#include "log.h"
#include "log_removal.h"
#include "pipe_io.h"
#include "retention.h"
#include "session.h"
#include "session_capture.h"
#include "session_cold.h"
#include "session_alloc.h"
#include "session_disk.h"
#include "session_parts.h"
#include "session_queue.h"
#include "session_sample.h"
#include "session_stopped.h"
#include "session_timer.h"
#include "templates.h"
#include "tenant.h"

#define SAMPLE_S 5
#define ROOM_S 10   /* the store's room on disk is taken again */
#define SWEEP_S 600 /* disks of no session are looked for */

static void retry_one(struct session *s, void *arg)
{
	(void)arg;
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: an execution is freed by itself */
		execution_retry_save(x);
	}
	session_parts_session_second(s);
	session_stopped_retry(s);
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

static void ask_for_keepers(struct core *c)
{
	for (unsigned slot = 0; slot < c->cells.keeper.nslots && c->keepers_wanted != 0; slot++)
		if ((c->keepers_wanted & 1U << slot) != 0 &&
		    (c->o.replace_keeper == NULL || c->o.replace_keeper(c->o.arg, slot)))
			c->keepers_wanted &= ~(1U << slot);
}

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
	loop_timer_set(c->loop, t, clock_now_ns() + 1000 * CLOCK_MS);
}

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
	if (c->recovered && e == NULL)
		session_disk_collect(c); /* of one that was killed */
}

static void on_storage_hung(void *arg)
{
	struct core *c = arg;

	if (c->o.replace_storage != NULL)
		c->o.replace_storage(c->o.arg);
}

/* Retention waits until the space of the logs that it has removed is free. */
static void on_old_logs_gone(void *arg)
{
	retention_start(arg);
}

static int open_folder(int at, const char *name, int *ret_fd, struct err *e)
{
	if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make folder %s", name);
	*ret_fd = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (*ret_fd < 0)
		return err_sys(e, "open folder %s", name);
	return 0;
}

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
	c->next_capture = (struct loop_task){ .on_run = session_capture_start_next, .arg = c };
	c->notify_listeners = (struct loop_task){ .on_run = event_log_on_notify, .arg = c };
	c->chores = (struct loop_timer){ .on_expire = on_chores, .arg = c };
	c->write_stopped = (struct loop_timer){ .on_expire = session_stopped_on_timer, .arg = c };
	c->queue_timer = (struct loop_timer){ .on_expire = session_queue_on_timer, .arg = c };
	retention_init(c);
	core_metrics_setup();
	if (c->meminfo_fd < 0) {
		/* Without it no session would be refused for want of memory. */
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
	    tenant_load_all(c, e) < 0 || tenant_first(c, e) < 0 || templates_load(c, e) < 0 ||
	    session_mask_setup(c, e) < 0 || session_parts_setup(c, e) < 0) {
		core_free(c);
		return NULL;
	}
	tenant_remove_rest(c);
	c->boot_id[strcspn(c->boot_id, "\n")] = '\0';
	loop_timer_set(l, &c->chores, clock_now_ns() + 1000 * CLOCK_MS);
	return c;
}

static void leave_one(struct session *s, void *arg)
{
	struct err e;

	(void)arg;
	(void)err_set_reason(&e, REASON_UNAVAILABLE, "the server ends");
	if (s->cell != NULL)
		live_cell_detach(s->cell);
	s->cell = NULL;
	session_cold_free(s);
	session_capture_lost(s, &e);
	session_free(s);
}

void core_free(struct core *c)
{
	if (c == NULL)
		return;
	session_stopped_write(c);
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
	held_memory_free_all(c);
	root_image_free_all(c);
	cells_release(&c->cells);
	layers_release(&c->layers);
	session_disk_collect_end(c);
	storage_link_release(&c->storage);
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		log_removal_free(&t->removal);
	log_removal_release(&c->removed_logs);
	io_close_all(&c->output_fd, 1);
	io_close_all(&c->meminfo_fd, 1);
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
	/* One that says why it cannot work does not keep sessions in memory from being made. */
	if (c->o.has_storage && !storage_link_is_ready(&c->storage) && !c->storage_cannot) {
		*ret_why = "cordon-storage is not running";
		return false;
	}
	return session_parts_fit(c, ret_why);
}

void core_drain(struct core *c)
{
	c->draining = true;
	templates_close(c);
}

bool core_drained(const struct core *c)
{
	return c->cells.ending == 0 && c->stopped == NULL && templates_are_idle(c);
}

unsigned core_cells_ending(const struct core *c)
{
	return c->cells.ending;
}
