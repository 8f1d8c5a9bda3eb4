/* record_quota.h - the bounds of records of executions and sessions: output, the bytes of their
 * records, and the number of events, network records and packages.
 *
 * execution_io.c calls output_quota_* around every move of bytes into a log: see record_quota.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/node/core.h"
#include "lib/base/err.h"

struct execution;
struct session;
struct tenant;

/* Set how much the log may grow, after an attempt to make room for need bytes. can_wait: the
 * caller can try later, if the space of removed logs is not free yet. */
void output_quota_make(struct execution *x, uint64_t need, bool can_wait);
/* Count the change of the log's size since `before`. */
void output_quota_count(struct execution *x, uint64_t before);
/* By how much the stored output of the session may still grow. */
uint64_t output_quota_room(const struct session *s);
/* Count so many bytes stored for the session beside its logs. */
void output_quota_kept(struct session *s, uint64_t bytes);
/* Count out logs of so many bytes, removed with the record of their session. */
void output_quota_gone(struct tenant *t, uint64_t bytes);

/* ---- the bytes of records
 *
 * Records stay for `retention` after the end of their session, so the records of a tenant are
 * bounded by bytes, not only by the number of its sessions. The store has the sum of a tenant
 * (store_records.h). The sums of a session are counted once and then kept in memory. Called before
 * a session or an execution is recorded. */

#define RECORD_TEXT_MAX 4096 /* kept bytes of a command. Its hash covers all of it */

/* Cut a text longer than RECORD_TEXT_MAX, between two characters, and end it in "...".
 */
void record_quota_cut(char *text);

/* Is there room for one more execution record of the session? ERR_LIMIT: a bound of the session or
 * its tenant is reached. */
int record_quota_check(struct session *s, struct err *e) MUST_USE;
/* The texts of all records of a session count for session_output_max. Empty this text if there is
 * no room for it, else count it. */
void record_quota_text(struct session *s, char *text);

/* Is there room for records of the tenant? 0: yes. 1: its bound, *ret_max, is reached. -1: the
 * store failed. */
int record_quota_session(struct core *c, const struct tenant *t, uint64_t *ret_max,
			 struct err *e) MUST_USE;

/* ---- how many events, network records and packages are kept, for a tenant and for the node
 *
 * Each tenant has a bound of its own, and its own oldest records go beyond it. Where all together
 * are beyond the node's bound, the tenant with most loses its oldest: so one tenant's records never
 * remove those of another with fewer. The rows of each tenant are counted once after a start and
 * kept up to date in memory from then on. Packages have the bounds of network records, each for
 * itself.
 *
 * Called by the writers of records (record_bounds_add) and by retention.c, in pieces. */

/* Count n appended rows of the tenant or, if negative, deleted ones. Start retention after every
 * START_EVERY rows. t NULL: the tenant is not known, nothing is counted for one. */
void record_bounds_add(struct core *c, struct tenant *t, enum record_kind kind, int64_t n);

/* Delete rows older than a time or beyond a bound, at most RECORD_BOUNDS_PIECE. 1: call again. 0:
 * nothing is left to delete. -1: failed. */
#define RECORD_BOUNDS_PIECE 256
int record_bounds_piece(struct core *c, enum record_kind kind, uint64_t before_ms,
			struct err *e) MUST_USE;
