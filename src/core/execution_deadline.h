/* execution_deadline.h - the daemon's own deadline of an execution, in case PID 1 does not keep it.
 */
#pragma once

#include "execution.h"

/* Called when PID 1 was asked to start the execution and when it has: sets the time that PID 1 has
 * for its next event. */
void execution_expect(struct execution *x);
/* Ends an execution that could not be started, for a reason (a constant), without waiting for PID
 * 1, which is asked to kill its processes. */
void execution_give_up(struct execution *x, const char *why);
/* Is its time over? Only of a session that is not paused. */
bool execution_is_over(const struct execution *x);
/* Fills in the outcome of one that was killed because its time is over. */
void execution_set_timed_out(struct execution *x);
/* PID 1 has answered KILL_TREE. */
void execution_on_tree_dead(struct execution *x, bool some_remain);

extern unsigned execution_slack_ms; /* how long PID 1 may be late; tests set both */
extern unsigned execution_tick_ms;
