/* session_timer.h - the one timer of a session: when its deadline or its idle time ends, whichever
 * is first. What happens then is session_lifecycle.c's. */
#pragma once

#include "session.h"

/* The session is used: its idle time starts again. */
void session_touch(struct session *s);
/* Sets the timer to the nearest of the session's deadlines, and queues a changed deadline for PID 1
 * (live_cell_lease.c). */
void session_plan_timer(struct session *s);
/* When a paused session ends without use, by the wall clock: a persistent one after its own time, a
 * cold one after cold_keep, any other after pause_keep. 0: it does not. */
uint64_t session_kept_until(const struct session *s);
/* It is paused for longer than that. */
bool session_timer_is_unused(const struct session *s);

/* If the wall clock was set since the last call, the deadlines of all sessions move with it: no
 * time has passed. Called once a second, and before anything is decided by the wall clock. */
void session_timer_check_clock(struct core *c);

/* Is its deadline over, at which PID 1 ends the cell if no server is connected (init/lease.h)? */
bool session_timer_ends_cell(const struct session *s);
