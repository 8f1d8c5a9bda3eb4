/* execution_deadline.h - ends executions that PID 1 does not end, finds the limits that an
 * execution hit, and kills the process trees left by ended executions. */
#pragma once

#include "daemon/execution/execution.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"

/* Set the time that PID 1 has for its next event. Called when PID 1 was asked to start the
 * execution and when it has. */
void execution_expect(struct execution *x);
/* End an execution that could not be started, for a reason (a constant), without waiting for PID 1.
 * PID 1 is asked to kill its processes. If it cannot be asked, the cell is ended from the loop, and
 * the execution with it. */
void execution_give_up(struct execution *x, const char *why);
/* Mark the timed-out executions: the session's cell is ended because of programs whose time has
 * ended. The session is not paused. */
void execution_mark_overdue(struct session *s);
/* Fill in the outcome of an execution killed at the end of its time. */
void execution_set_timed_out(struct execution *x);
/* A client has asked for its end: the cell is ended if PID 1 does not end it in time. */
void execution_expect_death(struct execution *x);
/* The error for callers waiting for a process tree that PID 1 could not kill completely. */
void execution_err_remain(struct err *e, const char *session_id);
/* The program of an execution that timed out has ended: kill what it left behind. The execution is
 * not complete before PID 1 says that nothing is left. */
void execution_kill_leftovers(struct execution *x);
/* Set the time that PID 1 has for that, or none if there are no leftovers. */
void execution_expect_leftovers(struct execution *x);
/* PID 1 has answered KILL_TREE. */
void execution_on_tree_dead(struct execution *x, bool some_remain);

extern unsigned execution_start_ms; /* for the start of a program. Tests set all three */
extern unsigned execution_slack_ms; /* how long PID 1 may be late */
extern unsigned execution_tick_ms;

/* ---- the limits hit while an execution ran
 *
 * Called by execution.c and session_lifecycle.c.
 *
 * row.limit is the one that ended it, and row.limits_hit lists all, also those that the command hid
 * by ending well. The counters of memory and processes are the cell's, as is the disk: a hit is in
 * the list of each execution that ran at that time.
 */

/* Start to count: earlier hits do not belong to the execution. */
void execution_limits_begin(struct execution *x);

/* PID 1 has reported all programs of the cell: hits before this moment belong to none of them. */
void execution_limits_synced(struct session *s);

/* Set row.limit and row.limits_hit: its program has ended as the event says. */
void execution_limits_end(struct execution *x, const struct agent_event *v);

/* Add a name to row.limits_hit, once. */
void execution_limits_add(struct execution *x, const char *name);

/* ---- process trees of ended executions in the course of being killed
 *
 * PID 1 has forgotten such an execution, and cordond has only its record. The processes still have
 * its mark, so PID 1 is asked by mark, under a new handle. A tree_kill waits for the answer. It
 * belongs to the session.
 */

/* Send the waiting kills: PID 1 of an adopted cell takes requests now. */
void execution_kills_synced(struct session *s);
/* End all kills: the cell is gone, and everything in it. */
void execution_kills_lost(struct session *s);
