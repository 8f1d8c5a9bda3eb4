/* quota.h - whether there is room for one more session, and what live sessions are counted for.
 *
 * session_queue.c asks before a session starts; the end of a session gives its share back. A
 * tenant's row has bounds of its own; where one is 0, the configuration's counts. */
#pragma once

#include "session.h"

/* Is there room for the session now? -1: no, and *ret_retry_s says when to ask again. */
int quota_fits(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;
/* The same for so many bytes of memory alone. */
int quota_memory_fits(const struct core *c, const struct tenant *t, uint64_t bytes,
		      struct err *e) MUST_USE;
/* Counts the session, for which quota_fits() has found room, and takes its tokens. */
void quota_take(struct session *s);
/* Counts a session that an earlier daemon admitted. */
void quota_count(struct session *s);
/* Gives back what the session was counted for, and starts the timer of the queues. Repeatable. */
void quota_release(struct session *s);
/* The same, for one that goes on without a cell: it still counts as a session of its key. */
void quota_uncount(struct session *s);
/* May it go without a cell? Such sessions are bounded by tenant_max_persistent. */
int quota_cold_fits(const struct session *s, struct err *e) MUST_USE;

/* How many sessions of its tenant may wait in the queue, 0: none; and for how long. */
uint64_t quota_queue_length(const struct session *s);
uint64_t quota_queue_ms(const struct session *s);
/* How many sessions the tenant may create in 1000 s; 0: as many as it likes. */
uint64_t quota_rate_milli(const struct core *c, const struct tenant *t);

/* The bounds of a tenant (0: none) and what its live sessions have been promised. */
struct quota_limits {
	uint64_t sessions, rate_milli, burst, memory, storage, pids, queue, stored;
	uint64_t used_sessions, used_memory, used_storage, used_pids;
};
/* How many more sessions with these limits have room, for the tenant and the node, besides those
 * there are and what is taken already. */
struct quota_taken {
	uint64_t sessions, memory, pids;
};
uint64_t quota_room(const struct core *c, const struct tenant *t, const struct store_limits *each,
		    const struct quota_taken *taken);
void quota_limits(const struct core *c, const struct tenant *t, struct quota_limits *ret);
