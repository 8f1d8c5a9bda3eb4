/* net_batch.h - a session's network records in the audit log, by digest: `network.batch` and
 * `package.batch` (doc/audit.md). Called by net_log.c and net_access.c.
 *
 * A batch has the stored rows behind the last batch. The store remembers the last row for each
 * session, and changes it in the transaction that writes the batch. So a killed cordond neither
 * leaves a row out nor counts it twice. Rows get their batch when there are
 * NET_BATCH_WEIGHT of them, six times the setting audit_checkpoint after the first, before rows of
 * the session are deleted, and with the record of the session's end. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session.h"

#define NET_BATCH_WEIGHT 1024 /* of rows, as STORE_NET_WEIGHT() */

struct net_batch_due;

void net_batch_init(struct net_batch_due *d, struct core *c);
void net_batch_release(struct net_batch_due *d);

/* A record of the session was stored. Inside its transaction. */
int net_batch_count(struct session *s, uint64_t weight, struct err *e) MUST_USE;
/* The session may have rows of an earlier cordond. */
void net_batch_look(struct session *s);
/* Have all rows covered now: some are deleted next, or the session ends. Inside a transaction. */
int net_batch_finish(struct session *s, struct err *e) MUST_USE;
/* The session leaves memory. */
void net_batch_forget(struct session *s);
