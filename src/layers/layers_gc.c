/* layers_gc.c - removes layers that nothing uses (layers.h). One pass at a time, one removal at a
 * time; each can be repeated, so a server or a cordon-storage that dies in between loses nothing.
 *
 * The order of a pass: rows without a use become dying; the directories are listed, and those that
 * have no row and are not being written are removed; then those of dying rows, each followed by its
 * row. A layer that is being written is in layers.writing from before its directory exists until
 * after its row is committed, so the comparison never removes one of those. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "clock.h"
#include "io.h"
#include "layers.h"
#include "log.h"

#define AGAIN_MS 10000
#define SOON_MS 1000
#define NAMES_MAX (8U << 20) /* bytes of the list; more is looked at in the next pass */

static void next_step(struct layers *l);

static void finish(struct layers *l, const struct err *e)
{
	struct layers_gc *g = &l->gc;
	struct completions told = { 0 };

	g->running = false;
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
		finish(l, &why);
		return;
	}
	if (g->has_row && store_layer_delete(l->store, g->current, &why) < 0 &&
	    why.code != ERR_NOT_FOUND) {
		finish(l, &why);
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

/* The next directory without a row. False: there is none. */
static bool next_orphan(struct layers *l)
{
	struct layers_gc *g = &l->gc;
	struct store_layer row;
	struct err e;

	while (g->names != NULL && g->at < g->names_len) {
		const char *id = g->names + g->at;

		g->at += strlen(id) + 1;
		if (*id == '\0' || strlen(id) >= sizeof(g->current) || is_being_written(l, id) ||
		    store_layer_get(l->store, id, &row, &e) == 0 || e.code != ERR_NOT_FOUND)
			continue;
		(void)snprintf(g->current, sizeof(g->current), "%s", id);
		g->current_bytes = 0;
		g->has_row = false;
		return true;
	}
	return false;
}

static int take_first(const struct store_layer *row, void *cookie)
{
	struct layers_gc *g = cookie;

	(void)snprintf(g->current, sizeof(g->current), "%s", row->id);
	g->current_bytes = row->bytes;
	g->has_row = true;
	return 1;
}

static void next_step(struct layers *l)
{
	struct layers_gc *g = &l->gc;
	struct err e;

	if (next_orphan(l)) {
		remove_current(l);
		return;
	}
	g->current[0] = '\0';
	if (store_layer_each(l->store, true, take_first, g, &e) < 0)
		finish(l, &e);
	else if (g->current[0] != '\0')
		remove_current(l);
	else
		finish(l, NULL);
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
	finish(l, &why);
}

static void on_names(struct loop_fd *f, uint32_t events)
{
	struct layers *l = f->arg;
	struct layers_gc *g = &l->gc;
	char bytes[16384];
	ssize_t n = read(g->pipe, bytes, sizeof(bytes));

	(void)events;
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
	if (store_layer_sweep(l->store, &e) < 0 || (g->scan && start_list(l, &e) < 0))
		finish(l, &e);
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
	/* Deletes that come together are one pass; who waits does not wait for that. */
	if (!g->running)
		loop_timer_set(l->loop, &g->timer,
			       clock_now_ns() + (w == NULL ? SOON_MS : 0) * CLOCK_MS);
}

void layers_gc_init(struct layers *l)
{
	l->gc.pipe = -1;
	l->gc.job.fd = -1;
	l->gc.timer = (struct loop_timer){ .on_expire = on_timer, .arg = l };
}

void layers_gc_release(struct layers *l)
{
	loop_timer_cancel(l->loop, &l->gc.timer);
	if (l->link != NULL)
		storage_link_cancel(l->link, &l->gc.job);
	end_list(l);
	free(l->gc.names);
	l->gc.names = NULL;
}
