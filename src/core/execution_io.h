/* execution_io.h - the streams of an execution: its pipes, and what moves from them into its log.
 * For the core's own files. */
#pragma once

#include "agent_client.h"
#include "execution.h"

struct live_cell;

/* Takes the descriptors that came with the event, in any case. */
int execution_take_fds(struct execution *x, const struct agent_event *v, const int *fds, unsigned n,
		       struct err *e) MUST_USE;
void execution_close_fds(struct execution *x);
/* Ends the reservation of descriptors for this execution: they have come, or will not. */
void execution_fds_settled(struct execution *x);

/* The program exited: moves what it wrote until then into the log, in pieces, and then calls
 * execution_exited(). */
void execution_drain(struct execution *x);
/* The same without execution_exited(), as far as one turn of the loop allows: the cell is gone. */
void execution_drain_last(struct execution *x);
/* For an execution that had ended before it was adopted: moves what is in the pipes. */
void execution_catch_up(struct execution *x);
/* Has a stream not ended? */
bool execution_output_open(const struct execution *x);
/* Frees it if it has ended, its output is complete and nothing refers to it. */
void execution_maybe_complete(struct execution *x);
