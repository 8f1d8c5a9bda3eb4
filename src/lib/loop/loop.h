/* loop.h - the event loop: descriptors (epoll), timers, and tasks at the end of a turn. One for
 * each process. Cordond, cordon-egress and cordon serve use it. Objects belong to the caller and
 * must stay at their address while they are registered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/loop/turns.h"

struct loop;
struct loop_fd;
struct loop_timer;
struct loop_task;

/* events: EPOLLIN, EPOLLOUT, ... as epoll(7) reports them. */
typedef void loop_ready_fn(struct loop_fd *fd, uint32_t events);
typedef void loop_expire_fn(struct loop_timer *timer);
typedef void loop_task_fn(struct loop_task *task);

struct loop_fd {
	int fd; /* borrowed. -1 while not registered */
	uint32_t events;
	loop_ready_fn *on_ready;
	void *arg;	  /* the caller's */
	const char *file; /* the loop's: where it was registered, for turns.h */
};

struct loop_timer {
	uint64_t at_ns; /* monotonic, see clock.h */
	size_t place;	/* the loop's: index in its heap plus one. 0 while not set */
	loop_expire_fn *on_expire;
	void *arg;	  /* the caller's */
	const char *file; /* the loop's: where it was set */
};

struct loop_task {
	struct loop_task *next;
	bool queued;
	loop_task_fn *on_run;
	void *arg;	  /* the caller's */
	const char *file; /* the loop's: where it was deferred */
};

struct loop *loop_new(struct err *e) MUST_USE;
void loop_free(struct loop *l);

/* Registers fd with f. f->on_ready and f->arg are set by the caller beforehand. */
#define loop_add(l, f, fd, events, e) loop_add_from(l, f, fd, events, __FILE__, e)
int loop_add_from(struct loop *l, struct loop_fd *f, int fd, uint32_t events, const char *file,
		  struct err *e) MUST_USE;
/* No-op if f is not registered. */
void loop_modify(struct loop *l, struct loop_fd *f, uint32_t events);
/* Safe inside callbacks, for itself or any other. After it no callback of f comes, not even one
 * already collected in this turn. No-op if f is not registered. Does not close the descriptor. */
void loop_remove(struct loop *l, struct loop_fd *f);

/* (Re)sets a timer. It fires once, at or after at_ns. */
#define loop_timer_set(l, t, at_ns) loop_timer_set_from(l, t, at_ns, __FILE__)
void loop_timer_set_from(struct loop *l, struct loop_timer *t, uint64_t at_ns, const char *file);
void loop_timer_cancel(struct loop *l, struct loop_timer *t);

/* Runs the task once, after the callbacks of this turn. No-op if it is queued already. */
#define loop_defer(l, t) loop_defer_from(l, t, __FILE__)
void loop_defer_from(struct loop *l, struct loop_task *t, const char *file);
void loop_task_cancel(struct loop *l, struct loop_task *t);

/* The time at the start of this turn: cheap, and the same for all that happens in it. */
uint64_t loop_now_ns(const struct loop *l);

/* The running callback's work, as a constant text, for the statistics of this turn. */
void loop_note(struct loop *l, const char *what);
/* Statistics: how long turns took. */
const struct turns *loop_turns(const struct loop *l);
/* Changes with every callback of the loop: two calls that return the same number were made inside
 * the same callback. */
uint64_t loop_step(const struct loop *l);

/* Run until loop_stop(). */
int loop_run(struct loop *l, struct err *e) MUST_USE;
void loop_stop(struct loop *l);
