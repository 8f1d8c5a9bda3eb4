/* loop.h - one process, one thread, one epoll loop: descriptors, timers, and work put off to the
 * end of a turn. Objects are the caller's and must stay where they are while they are registered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct loop;
struct loop_fd;
struct loop_timer;
struct loop_task;

/* events: EPOLLIN, EPOLLOUT, ... as epoll(7) reports them. */
typedef void loop_ready_fn(struct loop_fd *fd, uint32_t events);
typedef void loop_fire_fn(struct loop_timer *timer);
typedef void loop_task_fn(struct loop_task *task);

struct loop_fd {
	int fd; /* borrowed; -1 while not registered */
	uint32_t events;
	loop_ready_fn *ready;
	void *arg; /* the caller's */
};

struct loop_timer {
	uint64_t at_ns; /* monotonic, see clock.h */
	size_t place;	/* the loop's: index in its heap plus one; 0 while not set */
	loop_fire_fn *fire;
	void *arg; /* the caller's */
};

struct loop_task {
	struct loop_task *next;
	bool queued;
	loop_task_fn *run;
	void *arg; /* the caller's */
};

struct loop *loop_new(struct err *e) MUST_USE;
void loop_free(struct loop *l);

/* Registers fd with f. f->ready and f->arg are set by the caller beforehand. */
int loop_add(struct loop *l, struct loop_fd *f, int fd, uint32_t events, struct err *e) MUST_USE;
void loop_modify(struct loop *l, struct loop_fd *f, uint32_t events);
/* Safe inside callbacks, for itself or any other; after it no callback of f comes, not even one
 * already collected in this turn. No-op if f is not registered. Does not close the descriptor. */
void loop_remove(struct loop *l, struct loop_fd *f);

/* (Re)sets a timer; it fires once, at or after at_ns. */
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t at_ns);
void loop_timer_cancel(struct loop *l, struct loop_timer *t);

/* Runs the task once, after the callbacks of this turn. No-op if it is queued already. */
void loop_defer(struct loop *l, struct loop_task *t);
void loop_task_cancel(struct loop *l, struct loop_task *t);

/* The time at the start of this turn: cheap, and the same for all that happens in it. */
uint64_t loop_now_ns(const struct loop *l);

/* Runs until loop_stop(). */
int loop_run(struct loop *l, struct err *e) MUST_USE;
void loop_stop(struct loop *l);
