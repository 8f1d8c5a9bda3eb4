/* jobs.h - long work in pieces: each turn of the loop does some of it, for one owner after the
 * other.
 *
 * Work over many rows or files is a job of its owner (a tenant, or the node itself). A turn of the
 * loop runs pieces for JOBS_TURN_NS: one piece of the first owner's first job, one of the next
 * owner's, and so on. So a turn takes at most that time and one piece, however many jobs there are,
 * and an owner with many jobs delays only itself. The jobs of an owner are done one after the
 * other, so that only one of them at a time holds its collected data. */
#pragma once

#include <stdbool.h>

#include "lib/loop/loop.h"

#define JOBS_TURN_NS 1000000ULL /* a piece should take half of it at most */

struct job {
	struct job *next, **link; /* link is NULL while not queued */
	struct job_queue *queue;
	/* Does a piece. Return true if there is more to do. false: the job is done, and may be
	 * freed. It is not queued while it runs, so it may add itself again, at the end. */
	bool (*on_piece)(struct job *j);
	void *arg; /* the caller's */
};

/* One for each owner. Zeroed at first. */
struct job_queue {
	struct job_queue *next, **link; /* of owners with jobs */
	struct job *first, **end;
};

struct jobs {
	struct loop *loop; /* borrowed */
	struct loop_task task;
	struct job_queue *first, **end; /* the next one first */
};

void jobs_init(struct jobs *s, struct loop *l);
void jobs_release(struct jobs *s);

/* Queue a job behind the others of its owner. No-op if it is queued. */
void jobs_add(struct jobs *s, struct job_queue *q, struct job *j);
/* Safe at any time, also inside a piece. */
void jobs_cancel(struct jobs *s, struct job *j);
