/* execution_io.h - the streams of an execution: its pipes, and what moves from them into its log.
 * For the core's own files. */
#pragma once

#include "agent_client.h"
#include "execution.h"

struct live_cell;

/* Takes the descriptors that came with the event. */
int execution_take_fds(struct execution *x, struct live_cell *c, const struct agent_event *v,
		       struct err *e) MUST_USE;
void execution_close_fds(struct execution *x);
/* The descriptors that were reserved for it have come or will not come: gives them back. */
void execution_fds_settled(struct execution *x);

/* It exited: moves what it wrote until then into the log, in pieces; then execution_exited(). */
void execution_drain(struct execution *x);
/* The same at once, as far as one turn of the loop allows: its cell is gone. */
void execution_drain_last(struct execution *x);
/* Adopted after its end: moves what is in the pipes. */
void execution_catch_up(struct execution *x);
/* Frees it if it has ended, its output is complete and nothing refers to it. */
void execution_maybe_complete(struct execution *x);
