/* resolver_job.h - one lookup of the resolver, from resolver_lookup() to its callback. For
 * resolver*.c only. */
#pragma once

#include "resolver_private.h"

/* In the list of the resolver; aborts without memory, as the loop does. */
struct job *resolver_job_new(struct resolver *r, struct lookup *l, const char *host);
/* Frees a job that waits neither in the queue nor for an entry. */
void resolver_job_free(struct job *j);
/* Gives the job its result: the callback is called at the end of this turn, after the job is freed.
 */
void resolver_job_give(struct job *j, const struct result *result);
