/* key_sessions.h - how many sessions may be made with one key, at a time and in a minute
 * (store_allow.h). Called by quota.c, after the bounds of the tenant. Only keys with such limits
 * are counted; the count is made from the sessions that there are when it is first needed, so a
 * restart loses nothing but the rate. */
#pragma once

#include "session.h"

struct tenant;

/* May the session, which is not counted yet, be made with its key? If not, *ret_retry_s says when
 * to ask again. */
int key_sessions_fit(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;
/* It is made, or waits to be: it counts from now on. */
void key_sessions_count(struct session *s);
/* Not any more. Repeatable. */
void key_sessions_release(struct session *s);
/* Frees the counts of a tenant. */
void key_sessions_free(struct tenant *t);
