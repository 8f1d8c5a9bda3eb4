/* execution_deadline.h - the daemon's own deadline of an execution, in case PID 1 does not keep it.
 */
#pragma once

#include "execution.h"

/* Called when PID 1 was asked to start the execution and when it has: sets the time that PID 1 has
 * for its next event. */
void execution_expect(struct execution *x);
/* Ends the execution without waiting for PID 1: it timed out, or failed for a reason (a constant).
 * PID 1 is asked to kill its processes. */
void execution_give_up(struct execution *x, bool timed_out, const char *why);
