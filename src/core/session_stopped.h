/* session_stopped.h - the last record of a session, when nothing of its cell is left: see
 * session_stopped.c. Each function frees the session once the record is written. */
#pragma once

#include "session.h"

/* Writes it now. */
void session_stopped(struct session *s);
/* Writes it a few milliseconds later, together with those of other sessions. */
void session_stopped_soon(struct session *s);
/* Writes what session_stopped_soon() has put off. */
void session_stopped_write(struct core *c);
/* The same, as the callback of core's write_stopped. */
void session_stopped_on_timer(struct loop_timer *t);
/* Once a second: writes a state that could not be written, and frees the session if it is stopped.
 */
void session_stopped_retry(struct session *s);
