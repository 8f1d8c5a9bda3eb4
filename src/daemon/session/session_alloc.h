/* session_alloc.h - allocates a session, and frees it with everything that belongs to it.
 *
 * session_create.c allocates. session_create.c, session_queue.c, session_lifecycle.c,
 * session_stop.c and, at the end of the daemon, core_run.c free. No other file calls free() on a
 * session.
 */
#pragma once

#include "daemon/session/session.h"

/* Allocate an empty session. The caller sets the function of its timer. The session is not in the
 * table: see session_list_in(). */
struct session *session_new(struct core *c, struct tenant *t);
/* Free the session in any state, and remove it from the table. The caller has detached its cell, or
 * the cell is ending without an owner. */
void session_free(struct session *s);
/* Free the session. Its parts and all waiting requests get this reason. */
void session_free_for(struct session *s, const struct err *why);
