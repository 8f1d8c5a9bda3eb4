/* session_alloc.h - the memory of a session: made empty, and freed with everything that belongs to
 * it. */
#pragma once

#include "session.h"

/* The owner sets the function of its timer. The session is not in the table: session_list_in(). */
struct session *session_new(struct core *c, struct tenant *t);
/* Frees it in any state, and takes it out of the table. Its cell is the caller's: ended, detached,
 * or ending by itself. */
void session_free(struct session *s);
/* The same with a reason, which its parts and those that wait for it get. */
void session_free_for(struct session *s, const struct err *why);
