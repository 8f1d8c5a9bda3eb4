/* share.h - long work in pieces: each turn of the loop does some of it, owners take turns.
 *
 * Work that walks over many rows is a job of its owner (a tenant, or the node itself). A turn of
 * the loop runs pieces for SHARE_TURN_NS at most: one piece of the first owner's first job, one of
 * the next owner's, and so on round. So a turn is as long as that and one piece, however many jobs
 * there are, and an owner with many waits for its own work only. An owner's jobs are done one after
 * the other: what a job has collected is held for one of them at a time. */
#pragma once

#include <stdbool.h>

#include "loop.h"

#define SHARE_TURN_NS 2000000ULL /* a piece should take half of it at most */

struct share_job {
	struct share_job *next, **link; /* the share's; link is NULL while not queued */
	struct share_queue *queue;
	/* Does a piece. True: there is more to do; false: it is done, and may be gone. It is not
	 * queued while it runs, so it may add itself anew, at the end. */
	bool (*piece)(struct share_job *j);
	void *arg; /* the caller's */
};

/* One for each owner; zeroed at first. */
struct share_queue {
	struct share_queue *next, **link; /* of those that have jobs */
	struct share_job *first, **end;
};

struct share {
	struct loop *loop; /* borrowed */
	struct loop_task task;
	struct share_queue *first, **end; /* whose turn it is */
};

void share_init(struct share *s, struct loop *l);
void share_release(struct share *s);

/* Queues a job behind the others of its owner. No-op if it is queued. */
void share_add(struct share *s, struct share_queue *q, struct share_job *j);
/* Safe at any time, also inside a piece. */
void share_cancel(struct share *s, struct share_job *j);
