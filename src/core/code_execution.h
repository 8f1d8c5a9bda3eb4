/* code_execution.h - code that a client sends to the port of a session's interpreter: an execution
 * that is a request of that client, and no program of PID 1. Called by src/e2b/code_call.c; the
 * last part is for the core's own files.
 *
 * It has a record, an event and a place among the executions of its session as any other, and ends
 * exactly once: by execution_call_end(), with its session, or, if the daemon was killed, when the
 * next one reads its row. Its output is kept as that of any other, by execution_call_keep(): what
 * its client was sent is in its log, also after the daemon was killed. A call that is cut has a log
 * that is marked as cut. */
#pragma once

#include "execution.h"
#include "output.h"

/* Ends the request on behalf of another client (execution_kill()): closes the connection to the
 * interpreter, and calls execution_call_end() before it returns. */
typedef void execution_call_cut_fn(void *arg);

/* Writes the record: the code must not be sent before. Refused as execution_start() refuses. The
 * caller follows the execution, because its session may end before it does. */
struct execution *execution_call_start(struct session *s, const struct execution_spec *spec,
				       execution_call_cut_fn *cut, void *arg,
				       struct err *e) MUST_USE;

/* Writes output to the log, before it is sent to the client: masked, if the session has a mask. A
 * log that cannot be written is cut, and nothing else happens. */
void execution_call_keep(struct execution *x, enum output_stream stream, const uint8_t *bytes,
			 size_t n);
/* False: older logs of the session are being removed to make room for so many bytes, which are best
 * taken in a later turn of the loop. */
bool execution_call_has_room(struct execution *x, size_t bytes) MUST_USE;
/* Before its end: how much the code has written to each stream, in the order of output_index(). If
 * less was kept, because a mask still held it back, the log is cut. */
void execution_call_count(struct execution *x, const uint64_t bytes[]);

enum execution_call_outcome {
	EXECUTION_CALL_DONE,	/* the code ran to its end */
	EXECUTION_CALL_ERROR,	/* it ended with an error */
	EXECUTION_CALL_REFUSED, /* the interpreter did not run it */
	EXECUTION_CALL_CUT,	/* the answer is not complete */
};
/* why: of a call that was cut, a constant; else NULL. Does nothing if it has ended. */
void execution_call_end(struct execution *x, enum execution_call_outcome how, const char *why);

/* ---- for the core's own files */

bool execution_is_call(const struct execution *x);
/* Ends the calls of an earlier daemon, whose connections ended with it. */
void execution_call_end_old(struct session *s);
