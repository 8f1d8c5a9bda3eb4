/* session_lifecycle.h - a session from its admission to its end, as its cell reports it. */
#pragma once

#include "session.h"

struct live_cell_events;

/* The events of a cell that a session owns. */
extern const struct live_cell_events session_cell_events;

/* The session is admitted: claims a cell of the pool or has one made. */
void session_begin(struct session *s);
/* Recovery found the session's cell alive: goes on from the state that the store has. */
void session_adopted(struct session *s);
/* Ends it. detail is a constant that is shown to clients. Repeatable. */
/* Ends it: by the server itself, or as a client asked. detail: a constant. */
void session_stop(struct session *s, enum session_reason reason, const char *detail);
void session_stop_for(struct session *s, const struct store_actor *who, enum session_reason reason,
		      const char *detail);
/* Who asked for the change of state that begins now: in the events of this and of the following
 * states. NULL: the server itself. */
void session_set_actor(struct session *s, const struct store_actor *who);
/* Executions that have not ended are lost with the cell. */
void session_lose_executions(struct session *s);

/* session_stopped.c: nothing of its cell is left. The second writes that together with those of
 * other sessions, a few milliseconds later. Each frees the session once it is written. */
void session_stopped(struct session *s);
void session_stopped_soon(struct session *s);
/* Writes what session_stopped_soon() has put off. */
void session_stopped_write(struct core *c);
void session_stopped_on_timer(struct loop_timer *t);

/* The session is used: its idle time starts again. */
void session_touch(struct session *s);
/* Sets the timer to the nearest of its deadlines. */
void session_plan_timer(struct session *s);

/* Writes a change of state and its event. */
int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e) MUST_USE;
/* The same for what happens whether or not it can be written; tried again later, then. */
void session_save_anyway(struct session *s, enum session_state to, enum session_reason reason);
/* session_stopped.c, once a second: writes what could not be written, and frees a stopped session.
 */
void session_retry_save(struct session *s);
