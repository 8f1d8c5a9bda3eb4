/* execution_io.h - the streams of an execution: its pipes, and the moves from them into its log.
 * For the core's own files. */
#pragma once

#include "cell/cellctl/agent_client.h"
#include "daemon/execution/execution.h"

struct live_cell;

/* Take the descriptors that came with the event, in any case. */
int execution_take_fds(struct execution *x, const struct agent_event *v, const int *fds, unsigned n,
		       struct err *e) MUST_USE;
void execution_close_fds(struct execution *x);
/* End the reservation of descriptors for this execution: they have come, or will not. */
void execution_fds_settled(struct execution *x);

/* The program exited: move its output so far into the log, in pieces, and then call
 * execution_exited(). */
void execution_drain(struct execution *x);
/* Move the output without execution_exited(), as far as one turn of the loop allows: the cell is
 * gone. */
void execution_drain_last(struct execution *x);
/* For an execution ended before its adoption: move the bytes in the pipes. */
void execution_catch_up(struct execution *x);
/* Ask PID 1 to close the input. If its queue refuses that, execution_retry_orders() does it. */
void execution_send_close(struct execution *x);
/* Record the size of its terminal from now on. */
void execution_note_size(struct execution *x, uint16_t rows, uint16_t cols);
/* Is a stream still open? */
bool execution_output_open(const struct execution *x);
/* Free it if it has ended, its output is complete and nothing refers to it. */
void execution_maybe_complete(struct execution *x);
