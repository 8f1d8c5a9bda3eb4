/* session_lifecycle.h - the beginning of a session, the events of its cell and of its timer. */
#pragma once

#include "session.h"

struct keeper_create;
struct live_cell_events;

/* The events of a cell that a session owns. */
extern const struct live_cell_events session_cell_events;

/* The session is admitted: claims a cell of the pool or has one made. */
void session_begin(struct session *s);
/* Makes a cell by the plan, and its disk first. s->cell is NULL until the disk is there. */
void session_make_cell(struct session *s, const struct keeper_create *plan);
/* Recovery found the session's cell alive: goes on from the state that the store has. */
void session_adopted(struct session *s);
/* It has none, and is cold (session_cold.h). */
void session_adopted_cold(struct session *s);
/* Its cell is up, for the first time or again: the session is usable, and those that wait are
 * called, when all parts are ready. */
void session_start_parts(struct session *s);
