/* session_lifecycle.h - the begin of a session, and the events of its cell and of its timer.
 *
 * session_create.c, session_queue.c, session_suspend.c and recovery (core_run.c) call it.
 */
#pragma once

#include "daemon/session/session.h"

struct keeper_create;
struct live_cell_events;

/* The events of a cell that a session owns. */
extern const struct live_cell_events session_cell_events;

/* Begin an admitted session: claim a cell of the pool or have one made. */
void session_begin(struct session *s);
/* Make the session's disk, then a cell by the plan. s->cell is NULL until the disk exists. */
void session_make_cell(struct session *s, const struct keeper_create *plan);
/* Continue from the state in the store: recovery found the session's cell alive. */
void session_adopted(struct session *s);
/* Take over a cold session: it has no cell (session_suspend.h). */
void session_adopted_cold(struct session *s);
/* Start the parts: the cell is up, for the first time or again. The session is usable, and the
 * waiting requests are called, when all parts are ready. */
void session_start_parts(struct session *s);

/* End the cell: one of its programs outlived its timeout, and neither PID 1 nor the agent of the
 * guest ended it. */
void session_end_unresponsive(struct session *s);
