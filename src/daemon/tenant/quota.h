/* quota.h - room for one more session, and the counted shares of live sessions.
 *
 * session_queue.c asks before a session starts. The end of a session gives its share back. A
 * tenant's row has bounds of its own. Where one is 0, the configuration's counts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/session/session.h"
#include "lib/base/err.h"

/* Is there room for the session now? -1: no, and *ret_retry_s says when to ask again. */
int quota_fits(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;
/* quota_fits() for so many bytes of memory alone. */
int quota_memory_fits(const struct core *c, const struct tenant *t, uint64_t bytes,
		      struct err *e) MUST_USE;
/* Count the session, for which quota_fits() has found room, and take its tokens. */
void quota_take(struct session *s);
/* Count a session that an earlier daemon admitted. */
void quota_count(struct session *s);
/* Give back the session's share, and start the timer of the queues. Repeatable. */
void quota_release(struct session *s);
/* quota_release() for a session that continues without a cell: it still counts for its key. */
void quota_uncount(struct session *s);
/* May it go without a cell? Such sessions are bounded by tenant_max_persistent. */
int quota_cold_fits(const struct session *s, struct err *e) MUST_USE;

/* How many sessions of its tenant may wait in the queue, 0: none, and for how long. */
uint64_t quota_queue_length(const struct session *s);
uint64_t quota_queue_ms(const struct session *s);
/* How many sessions the tenant may create in 1000 s. 0: no bound. */
uint64_t quota_rate_milli(const struct core *c, const struct tenant *t);

/* The bound of a tenant's stored bytes. 0: none, or t is NULL: it has gone. */
uint64_t quota_stored(const struct core *c, const struct tenant *t);
/* The bounds of a tenant (0: none) and what its live sessions have been promised. */
struct quota_limits {
	uint64_t sessions, rate_milli, burst, memory, storage, pids, queue, stored;
	uint64_t used_sessions, used_memory, used_storage, used_pids;
};
/* How many more sessions with these limits have room, for the tenant and the node, beside existing
 * ones and the shares taken already. */
struct quota_taken {
	uint64_t sessions, memory, pids;
};
uint64_t quota_room(const struct core *c, const struct tenant *t, const struct cell_limits *each,
		    const struct quota_taken *taken);
void quota_limits(const struct core *c, const struct tenant *t, struct quota_limits *ret);

/* ---- values of limits in errors: memory and disk with a unit, processors as a number with a
 * fraction. Called by session_spec.c and allow.c. */

#define LIMIT_TEXT_MAX 24

struct limit_text {
	char s[LIMIT_TEXT_MAX];
};

/* name: as clients write it: "memory", "cpus", "pids", "disk_read_bps", ... */
struct limit_text limit_text(const char *name, uint64_t value);

/* ---- how many bytes of policies and secrets a tenant may change in a time
 *
 * Each change is parsed, stored, sent to egress and parsed there. The loops that serve all tenants
 * do that work, in proportion to the bytes. So each tenant has a bucket of bytes, full at first. */

/* May the tenant change so many bytes now? They are counted if so. Asked before they are parsed.
 * ERR_LIMIT: in a second. */
int change_quota_take(struct tenant *t, size_t bytes, struct err *e) MUST_USE;

/* ---- how many sessions may be made with one key, at a time and in a minute (store_allow.h)
 *
 * Checked after the bounds of the tenant. Only keys with such limits are counted. The count is made
 * from the live sessions when it is first needed, so a restart loses only the rate. */

/* May the session, so far uncounted, be made with its key? If not, *ret_retry_s says when to ask
 * again. */
int key_sessions_fit(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;
/* It is made, or waits to be: it counts from now on. */
void key_sessions_count(struct session *s);
/* Not any more. Repeatable. */
void key_sessions_release(struct session *s);
/* Free the counts of a tenant. */
void key_sessions_free(struct tenant *t);
