/* execution_adopt.h - an execution of a program that runs already. Called by session_lifecycle.c,
 * core_recover.c and pool_boot.c. */
#pragma once

#include "execution.h"

struct agent_event;
struct live_cell;

/* Restores an execution of an earlier daemon from its row; PID 1 then reports whether it holds it.
 */
int execution_recover(struct session *s, const struct store_execution *row, struct err *e) MUST_USE;
/* PID 1 holds it; or it failed to start, which the earlier daemon may not have seen. */
void execution_adopt(struct execution *x, struct live_cell *c, const struct agent_event *v);
void execution_adopt_failed(struct execution *x, struct live_cell *c, const struct agent_event *v);
/* The cell is gone, but its programs will go on in another one, whose PID 1 reports them. Those
 * that it does not report, when it is up, are lost: the second. */
void execution_detach_all(struct session *s);
void execution_lose_detached(struct session *s);
/* A program of another session that goes on in this one, which began with its memory, becomes an
 * execution of its own. */
void execution_continue(struct session *s, struct live_cell *c, const struct agent_event *v);
struct execution *execution_by_handle(struct session *s, uint32_t handle);
/* A program that was started in the cell before there was a session becomes an execution: writes
 * its record (pool_boot.h), and after the transaction takes the program and its descriptors. */
struct execution *execution_claim(struct session *s, const struct execution_spec *spec,
				  uint32_t handle, uint64_t mark, struct err *e) MUST_USE;
void execution_claimed(struct execution *x, const struct agent_event *v, const int *fds,
		       unsigned n);
