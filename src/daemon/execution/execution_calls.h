/* execution_calls.h - followers, the list of recently ended executions, and the preparation of
 * executions. For the core's own files. */
#pragma once

#include "daemon/execution/execution.h"

/* Call the followers at the end of this turn of the loop. */
void execution_notify(struct execution *x);
/* The callback of that task. It also frees a complete execution without a follower. */
void execution_on_notify(struct loop_task *t);
/* Remember an ended execution, for execution_past_by_pid(). */
void execution_remember(struct execution *x);

/* ---- a recorded execution, not yet sent to PID 1
 *
 * A part of the session (secrets, network access) needs time before the program may start. Called
 * by execution.c.
 */

/* Ask the parts. True: at least one needs time. A copy of spec is kept, and the execution is sent
 * when all of them are ready, or fails. False: it can be sent now. */
bool execution_prepare(struct execution *x, const struct execution_spec *spec);
/* Is it waiting for a part? */
bool execution_is_preparing(const struct execution *x);
/* End it as killed. */
void execution_prepare_kill(struct execution *x);
/* Drop the preparation: the execution will not be sent any more, and the copy is wiped. Repeatable.
 */
void execution_prepare_cancel(struct execution *x);
