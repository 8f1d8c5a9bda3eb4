/* execution_deadline.h - the daemon's own deadline of an execution, in case PID 1 does not keep it.
 */
#pragma once

#include "execution.h"

/* The execution was asked for, or has started: sets the time that PID 1 has for the next event. */
void execution_expect(struct execution *x);
/* Ends it here, whatever PID 1 does: it timed out, or failed for a reason (a constant). Its tree is
 * killed. */
void execution_give_up(struct execution *x, bool timed_out, const char *why);
