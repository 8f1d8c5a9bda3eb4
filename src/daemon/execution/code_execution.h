/* code_execution.h - code that a client sends to the port of a session's interpreter: an execution
 * for a client's request, without a program of PID 1. Called by src/front/e2b/code/code_call.c. The
 * last part is for the core's own files.
 *
 * A call has a record, an event and a place among the executions of its session. It ends exactly
 * once: by execution_call_end(), with its session, or, if the daemon was killed, when the next one
 * reads its row. Before that PID 1 is asked for the limits hit while it ran: so the end of the
 * record comes a moment after execution_call_end(). Its output is kept as for any other execution,
 * by execution_call_keep(): the log has all bytes sent to its client, also after a kill of the
 * daemon. A cut call has a log marked as cut.
 */
#pragma once

#include "daemon/execution/execution.h"
#include "daemon/output/output.h"

/* End the request on behalf of another client (execution_kill()): close the connection to the
 * interpreter, and call execution_call_end() before returning. */
typedef void execution_call_cut_fn(void *arg);

/* Write the record. The code must not be sent before. Refused as execution_start() refuses. The
 * caller follows the execution, because its session may end before it does. */
struct execution *execution_call_start(struct session *s, const struct execution_spec *spec,
				       execution_call_cut_fn *cut, void *arg,
				       struct err *e) MUST_USE;

/* Write output to the log, before it is sent to the client: masked, if the session has a mask. If
 * the log cannot be written, it is marked as cut, and the call continues. */
void execution_call_keep(struct execution *x, enum output_stream stream, const uint8_t *bytes,
			 size_t n);
/* False: older logs of the session are being removed to make room for so many bytes, so append them
 * in a later turn of the loop. */
bool execution_call_has_room(struct execution *x, size_t bytes) MUST_USE;
/* Before its end: how many bytes the code has written to each stream, in the order of
 * output_index(). If less was kept, because a mask still held it back, the log is cut. */
void execution_call_count(struct execution *x, const uint64_t bytes[]);

enum execution_call_outcome {
	EXECUTION_CALL_DONE,	/* the code ran to its end */
	EXECUTION_CALL_ERROR,	/* it ended with an error */
	EXECUTION_CALL_REFUSED, /* the interpreter did not run it */
	EXECUTION_CALL_CUT,	/* the answer is not complete */
};
/* End the call. why: of a cut call, a constant, else NULL. Does nothing if it has ended. True: its
 * record is complete. False: it will be in a moment, which followers of the execution notice. A cut
 * call ends at once, also if it waits for that moment, then as it was ended before. */
bool execution_call_end(struct execution *x, enum execution_call_outcome how, const char *why);

/* ---- for the core's own files */

/* PID 1 has answered live_cell_stat(). */
void execution_call_on_stated(struct session *s, const struct agent_event *v);
/* The session ends: complete the record of a call that ended before and waits for PID 1. */
void execution_call_settle(struct execution *x);
/* Is the execution a call? A call has no program, so PID 1 does not know it. */
bool execution_is_call(const struct execution *x);
/* End the calls of an earlier daemon: their connections ended with it. */
void execution_call_end_old(struct session *s);
