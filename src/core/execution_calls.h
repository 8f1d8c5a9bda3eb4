/* execution_calls.h - followers and the memory of ended executions, for the core's own files. */
#pragma once

#include "execution.h"

/* Calls the followers after this turn. */
void execution_notify(struct execution *x);
void execution_tell_followers(struct loop_task *t);
/* It has ended: execution_past_by_pid() finds it for a while. */
void execution_remember(struct execution *x);
