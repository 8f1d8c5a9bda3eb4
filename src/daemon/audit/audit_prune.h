/* audit_prune.h - old records go, a whole tile at a time. Their hashes stay, so that the tree can
 * be verified and can grow.
 *
 * Each tile that goes is a record (audit.pruned) of the log, written in the same transaction. So
 * nothing goes without a trace, and a killed daemon leaves no half of it.
 *
 * Retention prunes records older than audit_retention. Beyond tenant_audit_max the oldest tiles of
 * that tenant go, beyond audit_max those of the largest log's tenant. */
#pragma once

#include "daemon/audit/audit.h"

/* Delete the first tile of a log if its youngest record is older than before_ms (UINT64_MAX: of any
 * age). who: NULL: the server itself. 1: it is gone, and log->first says so. 0: there is none.
 * -1: of the store. */
int audit_prune_tile(struct audit *a, struct store_audit_log *log, uint64_t before_ms,
		     const char *why, const struct store_actor *who, struct err *e) MUST_USE;

/* Look for old records now: as a job. */
void audit_retention_start(struct audit *a);
