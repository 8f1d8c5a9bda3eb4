/* execution_adopt.h - makes an execution of a program that runs already. Called by
 * session_lifecycle.c, core_run.c and pool_boot.c. */
#pragma once

#include "daemon/execution/execution.h"

struct agent_event;
struct live_cell;

/* Restore an execution of an earlier daemon from its row. PID 1 then reports whether it holds the
 * program. */
int execution_recover(struct session *s, const struct store_execution *row, struct err *e) MUST_USE;
/* PID 1 holds the program, or it failed to start, which the earlier daemon may not have seen. */
void execution_adopt(struct execution *x, struct live_cell *c, const struct agent_event *v);
void execution_adopt_failed(struct execution *x, struct live_cell *c, const struct agent_event *v);
/* The cell is gone, but its programs will continue in another one, whose PID 1 reports them.
 * execution_lose_detached() ends the unreported ones once that cell is up. */
void execution_detach_all(struct session *s);
void execution_lose_detached(struct session *s);
/* Make an execution of a continued program: the session began with the memory of another session in
 * which it ran. */
void execution_continue(struct session *s, struct live_cell *c, const struct agent_event *v);
struct execution *execution_by_handle(struct session *s, uint32_t handle);
/* Make an execution of a program started in the cell before there was a session: execution_claim()
 * writes its record (pool_boot.h), and execution_claimed() takes the program and its descriptors
 * after the transaction. */
struct execution *execution_claim(struct session *s, const struct execution_spec *spec,
				  uint32_t handle, uint64_t mark, struct err *e) MUST_USE;
void execution_claimed(struct execution *x, const struct agent_event *v, const int *fds,
		       unsigned n);
