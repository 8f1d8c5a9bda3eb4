/* loop.c - the event loop.
 *
 * A turn: wait (at most until the first timer), read the clock, call the callbacks of ready
 * descriptors, of expired timers, and of tasks. A timer or task started by a callback in a
 * loop_turn (a timer for now, a task in a task) runs in the next turn at the earliest, so callbacks
 * cannot starve each other.
 *
 * A callback may remove any descriptor, also one whose event has been collected and not yet
 * delivered: loop_remove() removes it from the collected events, so that the object can be freed at
 * once. */
#include "lib/loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/base/clock.h"

#define EVENTS 256
#define NS_PER_S 1000000000ULL

struct loop {
	int epoll_fd;
	bool stop;
	bool firing;
	uint64_t now_ns;
	uint64_t step; /* callbacks so far */

	struct epoll_event events[EVENTS];
	size_t next_event, nevents; /* collected. Those before next_event are delivered */

	struct loop_timer **heap; /* binary, the earliest first */
	size_t ntimers, timers_cap;

	struct loop_task *first_task, *last_task; /* for the end of this turn */
	struct loop_task *running;		  /* of this turn, not yet run */

	struct turns turns;
	struct turns_turn turn;	      /* this one, so far */
	struct turns_callback called; /* the callback that runs */
	uint64_t mark_ns;	      /* when it began */
};

struct loop *loop_new(struct err *e)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l) {
		(void)err_sys(e, "cannot make an event loop");
		return NULL;
	}
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0) {
		(void)err_sys(e, "cannot make an event loop");
		free(l);
		return NULL;
	}
	l->now_ns = l->turns.window_ns = clock_now_ns();
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	fd_close(l->epoll_fd);
	free(l->heap);
	free(l);
}

uint64_t loop_now_ns(const struct loop *l)
{
	return l->now_ns;
}

uint64_t loop_step(const struct loop *l)
{
	return l->step;
}

void loop_stop(struct loop *l)
{
	l->stop = true;
}

const struct turns *loop_turns(const struct loop *l)
{
	return &l->turns;
}

void loop_note(struct loop *l, const char *what)
{
	l->called.note = what;
}

/* A callback begins. Its object may be gone when it returns. */
static void loop_begin(struct loop *l, enum turns_kind kind, const char *file)
{
	l->step++;
	l->called = (struct turns_callback){ .kind = kind, .file = file };
}

/* It has returned: the next one begins now. */
static void loop_end(struct loop *l)
{
	uint64_t now = clock_now_ns();

	l->called.ns = now - l->mark_ns;
	l->mark_ns = now;
	l->turn.callbacks++;
	if (l->called.ns > l->turn.longest.ns)
		l->turn.longest = l->called;
}

/* ---- descriptors */

int loop_add_from(struct loop *l, struct loop_fd *f, int fd, uint32_t events, const char *file,
		  struct err *e)
{
	struct epoll_event event = { .events = events, .data.ptr = f };

	assert(f->on_ready);
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_sys(e, "cannot watch descriptor %d", fd);
	f->fd = fd;
	f->events = events;
	f->file = file;
	return 0;
}

void loop_modify(struct loop *l, struct loop_fd *f, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = f };

	if (f->fd < 0 || f->events == events)
		return;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, f->fd, &event) < 0)
		abort(); /* it was closed before loop_remove(): a bug of the caller, and events
			    may be of another file by now */
	f->events = events;
}

void loop_remove(struct loop *l, struct loop_fd *f)
{
	if (f->fd < 0)
		return;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, f->fd, NULL) < 0)
		abort(); /* it was closed before loop_remove(): a bug of the caller, and events
			    may be of another file by now */
	for (size_t i = l->next_event; i < l->nevents; i++) {
		if (l->events[i].data.ptr == f)
			l->events[i].data.ptr = NULL;
	}
	f->fd = -1;
	f->events = 0;
}

/* ---- timers */

static void loop_put(struct loop *l, size_t at, struct loop_timer *t)
{
	l->heap[at] = t;
	t->place = at + 1;
}

static void loop_sift_up(struct loop *l, size_t at, struct loop_timer *t)
{
	while (at > 0) {
		size_t parent = (at - 1) / 2;

		if (l->heap[parent]->at_ns <= t->at_ns)
			break;
		loop_put(l, at, l->heap[parent]);
		at = parent;
	}
	loop_put(l, at, t);
}

static void loop_sift_down(struct loop *l, size_t at, struct loop_timer *t)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= l->ntimers)
			break;
		if (child + 1 < l->ntimers && l->heap[child + 1]->at_ns < l->heap[child]->at_ns)
			child++;
		if (t->at_ns <= l->heap[child]->at_ns)
			break;
		loop_put(l, at, l->heap[child]);
		at = child;
	}
	loop_put(l, at, t);
}

/* Put t where it belongs, given that at is free. */
static void loop_settle(struct loop *l, size_t at, struct loop_timer *t)
{
	if (at > 0 && l->heap[(at - 1) / 2]->at_ns > t->at_ns)
		loop_sift_up(l, at, t);
	else
		loop_sift_down(l, at, t);
}

/* Abort if out of memory: sessions and connections end by timers, and no caller could handle an
 * unset timer. */
static void loop_grow_heap(struct loop *l)
{
	size_t cap = l->timers_cap ? 2 * l->timers_cap : 64;
	struct loop_timer **heap = reallocarray(l->heap, cap, sizeof(struct loop_timer *));

	if (!heap) {
		(void)fprintf(stderr, "out of memory for a timer\n");
		abort();
	}
	l->heap = heap;
	l->timers_cap = cap;
}

void loop_timer_set_from(struct loop *l, struct loop_timer *t, uint64_t at_ns, const char *file)
{
	assert(t->on_expire);
	t->file = file;
	if (l->firing && at_ns <= l->now_ns)
		at_ns = l->now_ns + 1; /* the next turn: others are due, too */
	if (t->place == 0) {
		if (l->ntimers == l->timers_cap)
			loop_grow_heap(l);
		t->place = ++l->ntimers;
	}
	t->at_ns = at_ns;
	loop_settle(l, t->place - 1, t);
}

void loop_timer_cancel(struct loop *l, struct loop_timer *t)
{
	size_t at = t->place - 1;
	struct loop_timer *last;

	if (t->place == 0)
		return;
	assert(at < l->ntimers && l->heap[at] == t);
	last = l->heap[--l->ntimers];
	t->place = 0;
	if (last != t)
		loop_settle(l, at, last);
}

static void loop_fire_timers(struct loop *l)
{
	l->firing = true;
	while (l->ntimers > 0 && l->heap[0]->at_ns <= l->now_ns) {
		struct loop_timer *t = l->heap[0];

		loop_timer_cancel(l, t);
		loop_begin(l, TURNS_TIMER, t->file);
		t->on_expire(t);
		loop_end(l);
	}
	l->firing = false;
}

/* ---- tasks */

void loop_defer_from(struct loop *l, struct loop_task *t, const char *file)
{
	assert(t->on_run);
	if (t->queued)
		return;
	t->file = file;
	t->queued = true;
	t->next = NULL;
	if (l->first_task)
		l->last_task->next = t;
	else
		l->first_task = t;
	l->last_task = t;
}

/* True if t was in the list. *ret_before is then the one before it, or NULL. */
static bool loop_unlink_task(struct loop_task **first, struct loop_task *t,
			     struct loop_task **ret_before)
{
	struct loop_task *before = NULL;

	for (struct loop_task *at = *first; at; before = at, at = at->next) {
		if (at != t)
			continue;
		if (before)
			before->next = t->next;
		else
			*first = t->next;
		*ret_before = before;
		return true;
	}
	return false;
}

void loop_task_cancel(struct loop *l, struct loop_task *t)
{
	struct loop_task *before;

	if (!t->queued)
		return;
	t->queued = false;
	if (loop_unlink_task(&l->running, t, &before))
		return;
	if (loop_unlink_task(&l->first_task, t, &before) && l->last_task == t)
		l->last_task = before;
}

static void loop_run_tasks(struct loop *l)
{
	l->running = l->first_task;
	l->first_task = l->last_task = NULL;
	while (l->running) {
		struct loop_task *t = l->running;

		l->running = t->next;
		t->queued = false;
		loop_begin(l, TURNS_TASK, t->file);
		t->on_run(t);
		loop_end(l);
	}
}

/* ---- turns */

/* How long to wait: NULL forever. */
static const struct timespec *loop_wait_time(const struct loop *l, struct timespec *ret)
{
	uint64_t now = clock_now_ns(), wait;

	*ret = (struct timespec){ 0 };
	if (l->first_task)
		return ret;
	if (l->ntimers == 0)
		return NULL;
	if (l->heap[0]->at_ns <= now)
		return ret;
	wait = l->heap[0]->at_ns - now;
	ret->tv_sec = (time_t)(wait / NS_PER_S);
	ret->tv_nsec = (long)(wait % NS_PER_S);
	return ret;
}

static int loop_turn(struct loop *l, struct err *e)
{
	struct timespec wait;
	/* musl has no function for it. */
	int n = (int)syscall(SYS_epoll_pwait2, l->epoll_fd, l->events, EVENTS,
			     loop_wait_time(l, &wait), NULL, 0);

	if (n < 0 && errno != EINTR)
		return err_sys(e, "cannot wait for events");
	l->now_ns = l->mark_ns = clock_now_ns();
	l->turn = (struct turns_turn){ 0 };
	l->nevents = n > 0 ? (size_t)n : 0;
	for (l->next_event = 0; l->next_event < l->nevents;) {
		struct epoll_event *event = &l->events[l->next_event++];
		struct loop_fd *f = event->data.ptr;

		if (!f)
			continue;
		loop_begin(l, TURNS_FD, f->file);
		f->on_ready(f, event->events);
		loop_end(l);
	}
	l->nevents = 0;
	loop_fire_timers(l);
	loop_run_tasks(l);
	l->turn.ns = l->mark_ns - l->now_ns;
	turns_add(&l->turns, &l->turn, l->mark_ns);
	return 0;
}

int loop_run(struct loop *l, struct err *e)
{
	for (l->stop = false; !l->stop;) {
		if (loop_turn(l, e) < 0)
			return -1;
	}
	return 0;
}
