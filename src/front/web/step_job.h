/* step_job.h - the work of a request in steps, in the tenant's share of the loop (jobs.h):
 * documents of policies, which take milliseconds to read, to check and to merge.
 *
 * Part of a handler's state. Each step calls next(), which names the next step. Other clients are
 * served between two steps, so a step looks up all that may have changed or ended. */
#pragma once

#include "front/web/request.h"
#include "lib/loop/jobs.h"

struct step_job {
	struct request *r;
	struct job job;
	/* 1: there is another step. 0: the request is answered or waits, and the state may be gone.
	 * -1: e is the answer. */
	int (*next)(struct step_job *s, struct err *e);
};

/* next is set. in_turns: the work may be long. Without it all steps are done at once. */
void step_job_start(struct step_job *s, struct request *r, bool in_turns);
/* In the release function of the state. Also if it was never started. */
void step_job_cancel(struct step_job *s);
