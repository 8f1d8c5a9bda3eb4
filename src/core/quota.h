/* quota.h - whether a session may start now, and the queues of those that wait.
 *
 * session.c asks before a session is created and queues it if it may wait. Whatever gives room back
 * (an ended session, a raised limit, a second passed) calls quota_serve_queues(). */
#pragma once

#include "session.h"

/* Admits a session. 0: it may start, and is counted; 1: not now, but it may wait; -1: refused, and
 * *ret_retry_s says when to ask again. */
int quota_admit(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;
/* Counts a session without asking: recovery, for one that an earlier daemon admitted. */
void quota_count(struct session *s);
/* Gives back what the session was counted for. Repeatable. */
void quota_release(struct session *s);

/* Puts a session at the end of its tenant's queue, or takes it out. */
void quota_queue(struct session *s);
void quota_unqueue(struct session *s);
/* How long the session may wait in the queue. */
uint64_t quota_queue_ms(const struct session *s);
/* Starts waiting sessions as far as there is room, tenants in turn. */
void quota_serve_queues(struct core *c);
/* The same, as the callback of a timer whose argument is the core. */
void quota_turn(struct loop_timer *t);
/* Ends all sessions in the tenant's queue with that error. */
void quota_refuse_all(struct tenant *t, const struct err *e);

/* The bounds of a tenant (0: none) and what its live sessions have been promised. */
struct quota_limits {
	uint64_t sessions, rate_milli, burst, memory, storage, pids, queue;
	uint64_t used_sessions, used_memory, used_storage, used_pids;
};
void quota_limits(const struct core *c, const struct tenant *t, struct quota_limits *ret);
