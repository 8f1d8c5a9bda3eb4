/* session_queue.h - sessions waiting for room: a queue for each tenant that may have one.
 *
 * session_create.c asks whether a session may start and queues it if it may wait. Every event that
 * frees room (an ended session, a raised limit, a second passed) serves the queues.
 */
#pragma once

#include "daemon/session/session.h"

/* Admit a session. 0: it may start, and is counted. 1: not now, but it may wait. -1: refused, and
 * *ret_retry_s says when to ask again. */
int session_queue_admit(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;

/* Put a session at the end of its tenant's queue, or take it out. */
void session_queue_add(struct session *s);
void session_queue_remove(struct session *s);

/* Start waiting sessions as far as there is room, tenants in turn. */
void session_queue_serve(struct core *c);
/* session_queue_serve() as the callback of core's queue_timer. */
void session_queue_on_timer(struct loop_timer *t);
/* End all sessions in the tenant's queue with that error. */
void session_queue_refuse_all(struct tenant *t, const struct err *e);
