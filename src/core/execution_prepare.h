/* execution_prepare.h - an execution that is recorded and not yet sent to PID 1, because a part of
 * the session (secrets, network access) has something to bring before the program may start.
 * Called by execution.c. */
#pragma once

#include "execution.h"

/* Asks the parts. True: at least one needs time; a copy of spec is kept, and the execution is sent
 * when all of them are ready, or fails. False: it can be sent now. */
bool execution_prepare(struct execution *x, const struct execution_spec *spec);
/* Is it kept from PID 1? */
bool execution_is_preparing(const struct execution *x);
/* Ends it as killed. */
void execution_prepare_kill(struct execution *x);
/* It will not be sent any more; the copy is wiped. Repeatable. */
void execution_prepare_cancel(struct execution *x);
