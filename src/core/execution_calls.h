/* execution_calls.h - followers, and the list of executions that ended lately. For the core's own
 * files. */
#pragma once

#include "execution.h"

/* Calls the followers at the end of this turn of the loop. */
void execution_notify(struct execution *x);
/* The callback of that task; also frees an execution that is complete and has no follower. */
void execution_on_notify(struct loop_task *t);
/* Remembers an execution that has ended, for execution_past_by_pid(). */
void execution_remember(struct execution *x);
