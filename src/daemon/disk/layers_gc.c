/* layers_gc.c - removes layers that nothing uses (layers.h). One pass at a time, one removal at a
 * time. Each can be repeated, so a server or a cordon-storage that dies in between loses nothing.
 *
 * The order of a pass: layers given up are removed, if they have no row. The directories are
 * listed, and those with neither a row nor a writer are removed. Then those of dying rows, each
 * followed by its row, tenants in turn. Without the list a pass is the second part only. There may
 * be many of both, so a turn of the loop looks at a few. A layer being written is in layers.writing
 * from before its directory exists until after its row is committed, so the comparison never
 * removes one of those. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/disk/layers.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define AGAIN_MS 10000
#define SOON_MS 1000
#define PIECE 64	     /* names looked at in a turn */
#define NAMES_MAX (8U << 20) /* bytes of the list. More is looked at in the next pass */

static void next_step(struct layers *l);

static void layers_gc_finish(struct layers *l, const struct err *e)
{
	struct layers_gc *g = &l->gc;
	struct completions told = { 0 };

	g->running = false;
	g->ndying = g->at_dying = 0;
	g->last = g->now;
	free(g->names);
	g->names = NULL;
	completions_move(&g->waiters, &told);
	if (e != NULL) {
		log_warn("layers could not be removed", "error=%s", e->msg);
		g->scan_next |= g->scan;
		loop_timer_set(l->loop, &g->timer, clock_now_ns() + AGAIN_MS * CLOCK_MS);
	} else if (g->again) {
		loop_timer_set(l->loop, &g->timer, clock_now_ns());
	}
	if (g->now.removed + g->now.orphans > 0)
		log_info("layers removed", "layers=%llu orphans=%llu bytes=%llu",
			 (unsigned long long)g->now.removed, (unsigned long long)g->now.orphans,
			 (unsigned long long)g->now.bytes);
	completions_end_all(&told, e);
}

static bool is_being_written(const struct layers *l, const char *id)
{
	for (const struct layer_writing *w = l->writing; w != NULL; w = w->next)
		if (strcmp(w->id, id) == 0)
			return true;
	return false;
}

static void on_removed(struct completion *c, const struct err *e)
{
	struct layers *l = c->arg;
	struct layers_gc *g = &l->gc;
	struct err why;

	if (e != NULL) {
		why = *e;
		g->scan_next |= !g->has_row; /* the search finds it again */
		layers_gc_finish(l, &why);
		return;
	}
	if (g->has_row && store_layer_delete(l->store, g->current, &why) < 0 &&
	    why.code != ERR_NOT_FOUND) {
		layers_gc_finish(l, &why);
		return;
	}
	g->now.removed += g->has_row;
	g->now.orphans += !g->has_row;
	g->now.bytes += g->current_bytes;
	next_step(l);
}

static void remove_current(struct layers *l)
{
	l->gc.job.done = (struct completion){ .on_done = on_removed, .arg = l };
	storage_link_remove(l->link, &l->gc.job, l->gc.current);
}

static bool is_orphan(const struct layers *l, const char *id)
{
	struct store_layer row;
	struct err e;

	return *id != '\0' && strlen(id) < STORAGE_ID_MAX && !is_being_written(l, id) &&
	       store_layer_get(l->store, id, &row, &e) < 0 && e.code == ERR_NOT_FOUND;
}

static void take_orphan(struct layers_gc *g, const char *id)
{
	str_copy(g->current, id);
	g->current_bytes = 0;
	g->has_row = false;
}

/* The next layer given up. False: there is none. */
static bool next_given_up(struct layers *l)
{
	struct layer_given_up *u;
	bool found = false;

	while (!found && (u = l->gc.given_up) != NULL) {
		LIST_REMOVE(u);
		found = is_orphan(l, u->id);
		if (found)
			take_orphan(&l->gc, u->id);
		free(u);
	}
	return found;
}

static bool has_names(const struct layers_gc *g)
{
	return g->names != NULL && g->at < g->names_len;
}

/* The next directory without a row, among a few. False: there is none. */
static bool next_orphan(struct layers *l)
{
	struct layers_gc *g = &l->gc;

	for (unsigned i = 0; i < PIECE && has_names(g); i++) {
		const char *id = g->names + g->at;

		g->at += strlen(id) + 1;
		if (!is_orphan(l, id))
			continue;
		take_orphan(g, id);
		return true;
	}
	return false;
}

static int take_dying(const struct store_layer *row, void *cookie)
{
	struct layers_gc *g = cookie;
	struct layers_dying *d = &g->dying[g->ndying++];

	str_copy(d->id, row->id);
	d->bytes = row->bytes;
	/* Behind this one, whose other layers wait for another round. */
	(void)snprintf(g->next_tenant, sizeof(g->next_tenant), "%s!", row->tenant);
	return g->ndying == COUNT(g->dying);
}

/* From the next tenant on, or else from the first one. */
static int look_up_dying(struct layers *l, struct err *e)
{
	struct layers_gc *g = &l->gc;
	char from[sizeof(g->next_tenant)];

	memcpy(from, g->next_tenant, sizeof(from));
	g->at_dying = g->ndying = 0;
	if (store_layer_next_dying(l->store, from, COUNT(g->dying), take_dying, g, e) < 0)
		return -1;
	if (g->ndying > 0 || from[0] == '\0')
		return 0;
	g->next_tenant[0] = '\0';
	return store_layer_next_dying(l->store, "", COUNT(g->dying), take_dying, g, e);
}

/* To find one of them takes a look at all layers, so several are found together. 0: there is none.
 */
static int next_dying(struct layers *l, struct err *e)
{
	struct layers_gc *g = &l->gc;

	if (g->at_dying == g->ndying && look_up_dying(l, e) < 0)
		return -1;
	if (g->ndying == 0)
		return 0;
	str_copy(g->current, g->dying[g->at_dying].id);
	g->current_bytes = g->dying[g->at_dying++].bytes;
	g->has_row = true;
	return 1;
}

static void next_step(struct layers *l)
{
	struct err e;
	int found;

	if (next_given_up(l) || next_orphan(l)) {
		remove_current(l);
		return;
	}
	if (has_names(&l->gc)) {
		loop_defer(l->loop, &l->gc.go_on);
		return;
	}
	found = next_dying(l, &e);
	if (found > 0)
		remove_current(l);
	else
		layers_gc_finish(l, found < 0 ? &e : NULL);
}

static void on_go_on(struct loop_task *t)
{
	next_step(t->arg);
}

/* ---- the list of directories */

static void end_list(struct layers *l)
{
	struct layers_gc *g = &l->gc;

	if (g->pipe < 0)
		return;
	loop_remove(l->loop, &g->watch);
	io_close_all(&g->pipe, 1);
}

static void list_ended(struct layers *l)
{
	struct layers_gc *g = &l->gc;

	if (g->listing || g->pipe >= 0)
		return; /* the other of the two is to come */
	if (g->names != NULL && g->names_len > 0)
		g->names[g->names_len - 1] = '\0';
	next_step(l);
}

static void on_listed(struct completion *c, const struct err *e)
{
	struct layers *l = c->arg;
	struct err why;

	l->gc.listing = false;
	if (e == NULL) {
		list_ended(l);
		return;
	}
	why = *e;
	end_list(l);
	layers_gc_finish(l, &why);
}

static void on_names(struct loop_fd *f, uint32_t events)
{
	struct layers *l = f->arg;
	struct layers_gc *g = &l->gc;
	char bytes[16384];
	ssize_t n = read(g->pipe, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && g->names_len + (size_t)n <= NAMES_MAX) {
		g->names = realloc(g->names, g->names_len + (size_t)n);
		assert(g->names != NULL);
		memcpy(g->names + g->names_len, bytes, (size_t)n);
		g->names_len += (size_t)n;
	}
	if (n > 0)
		return;
	end_list(l);
	list_ended(l);
}

static int start_list(struct layers *l, struct err *e)
{
	struct layers_gc *g = &l->gc;
	int ends[2];

	g->at = g->names_len = 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	g->pipe = ends[0];
	g->watch = (struct loop_fd){ .fd = -1, .on_ready = on_names, .arg = l };
	if (fcntl(g->pipe, F_SETFL, O_NONBLOCK) < 0
		    ? err_sys(e, "pipe")
		    : loop_add(l->loop, &g->watch, g->pipe, EPOLLIN, e)) {
		io_close_all(ends, 2);
		g->pipe = -1;
		return -1;
	}
	g->listing = true;
	g->job.done = (struct completion){ .on_done = on_listed, .arg = l };
	storage_link_list(l->link, &g->job, ends[1]);
	return 0;
}

/* ---- a pass */

static void on_timer(struct loop_timer *t)
{
	struct layers *l = t->arg;
	struct layers_gc *g = &l->gc;
	struct err e;

	if (g->running || l->link == NULL)
		return;
	g->running = true;
	g->scan = g->scan_next;
	g->scan_next = g->again = false;
	g->now = (struct layers_collected){ 0 };
	completions_move(&g->next_waiters, &g->waiters);
	if (g->scan && (store_layer_sweep(l->store, &e) < 0 || start_list(l, &e) < 0))
		layers_gc_finish(l, &e);
	else if (!g->scan)
		next_step(l);
}

void layers_collect(struct layers *l, bool scan, struct completion *w)
{
	struct layers_gc *g = &l->gc;
	struct err e;

	if (l->link == NULL) {
		(void)err_set_reason(&e, REASON_UNAVAILABLE, "this server has no storage folder");
		if (w != NULL)
			completion_end_soon(w, l->loop, &e);
		return;
	}
	if (w != NULL)
		completion_begin(w, l->loop, &g->next_waiters);
	g->scan_next |= scan;
	g->again = true;
	/* Deletions that come together are one pass. A waiting request does not wait for it. */
	if (!g->running)
		loop_timer_set(l->loop, &g->timer,
			       clock_now_ns() + (w == NULL ? SOON_MS : 0) * CLOCK_MS);
}

void layers_give_it_up(struct layers *l, const char *id)
{
	struct layer_given_up *u;

	if (l->link == NULL)
		return;
	u = calloc(1, sizeof(*u));
	assert(u != NULL);
	str_copy(u->id, id);
	LIST_PUSH(&l->gc.given_up, u);
	layers_collect(l, false, NULL);
}

void layers_gc_init(struct layers *l)
{
	l->gc.pipe = -1;
	l->gc.job.fd = -1;
	l->gc.timer = (struct loop_timer){ .on_expire = on_timer, .arg = l };
	l->gc.go_on = (struct loop_task){ .on_run = on_go_on, .arg = l };
}

void layers_gc_release(struct layers *l)
{
	loop_timer_cancel(l->loop, &l->gc.timer);
	loop_task_cancel(l->loop, &l->gc.go_on);
	if (l->link != NULL)
		storage_link_cancel(l->link, &l->gc.job);
	end_list(l);
	while (l->gc.given_up != NULL) {
		struct layer_given_up *u = l->gc.given_up;

		LIST_REMOVE(u);
		free(u);
	}
	free(l->gc.names);
	l->gc.names = NULL;
}
