/* execution_limits.h - which limits were hit while an execution ran. Called by execution.c and
 * session_lifecycle.c.
 *
 * row.limit is the one that ended it, and row.limits_hit lists all, also those that the command hid
 * by ending well. The counters of memory and processes are the cell's, as is the disk: what several
 * executions hit that ran at the same time is in the list of each. */
#pragma once

#include "core_private.h"

/* The execution starts: what was hit before is not told of it. */
void execution_limits_begin(struct execution *x);

/* PID 1 has said what runs in the cell: what was hit before this moment is not due to it. */
void execution_limits_synced(struct session *s);

/* Its program has ended as the event says: sets row.limit and row.limits_hit. */
void execution_limits_end(struct execution *x, const struct agent_event *v);

/* Adds a name to row.limits_hit, once. */
void execution_limits_add(struct execution *x, const char *name);
