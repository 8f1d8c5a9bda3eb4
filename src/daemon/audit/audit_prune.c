/* audit_prune.c - see audit_prune.h. */
#include "daemon/audit/audit_prune.h"

#include <stdio.h>
#include <string.h>

#include "daemon/audit/audit_private.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/tlog/tlog_tile.h"

/* The whole deleted part, since the records of earlier deletions go, too. from and to come first: a
 * verifier of that log looks for them there. The last log records the removals from earlier
 * logs. */
static int append_pruned(struct audit *a, const struct store_audit_log *log, uint64_t to,
			 const char *why, const struct store_actor *who, struct err *e)
{
	const struct audit_record record = { .tenant = log->tenant,
					     .type = "audit.pruned",
					     .actor = who };
	const struct audit_log *last = audit_find(a, log->tenant, e);
	char epoch[40] = "";

	if (last == NULL)
		return -1;
	if (last->id != log->id)
		(void)snprintf(epoch, sizeof(epoch), "epoch\t%llu\n",
			       (unsigned long long)log->epoch);
	return audit_append(a, &record, e, "%sfrom\t0\nto\t%llu\nwhy\t%s\n", epoch,
			    (unsigned long long)to, why);
}

int audit_prune_tile(struct audit *a, struct store_audit_log *log, uint64_t before_ms,
		     const char *why, const struct store_actor *who, struct err *e)
{
	uint64_t end = log->first + TLOG_TILE, youngest;

	if (end > log->hashed)
		return 0;
	/* A missing record is no reason to keep the others. */
	if (before_ms != UINT64_MAX) {
		if (store_audit_time(a->store, log->id, end - 1, &youngest, e) == 0) {
			if (youngest >= before_ms)
				return 0;
		} else if (e->code != ERR_NOT_FOUND) {
			return -1;
		}
	}
	if (store_begin(a->store, e) < 0)
		return -1;
	if (store_audit_prune(a->store, log->id, end, e) < 0 ||
	    append_pruned(a, log, end, why, who, e) < 0 || store_commit(a->store, e) < 0) {
		store_rollback(a->store);
		return -1;
	}
	a->pruned += TLOG_TILE;
	log->first = end;
	return 1;
}

/* ---- retention */

struct audit_prune_found {
	struct store_audit_log log;
	bool any;
};

static int on_log(const struct store_audit_log *row, void *cookie)
{
	struct audit_prune_found *f = cookie;

	f->log = *row;
	f->log.note = NULL;
	f->any = true;
	return 1;
}

/* The tenant's oldest log with a whole tile. */
static int on_log_with_tile(const struct store_audit_log *row, void *cookie)
{
	return row->first + TLOG_TILE > row->hashed ? 0 : on_log(row, cookie);
}

static int prune_beyond(struct audit *a, const char *tenant, const char *why, struct err *e)
{
	struct audit_prune_found f = { .any = false };

	if (store_audit_log_each_of(a->store, tenant, on_log_with_tile, &f, e) < 0)
		return -1;
	return f.any ? audit_prune_tile(a, &f.log, UINT64_MAX, why, NULL, e) : 0;
}

/* The node has too much. */
static int prune_node(struct audit *a, struct err *e)
{
	char tenant[STORE_ID_MAX];
	uint64_t all;

	if (a->o.config->audit_max == 0)
		return 0;
	if (store_audit_bytes(a->store, NULL, &all, e) < 0)
		return -1;
	if (all <= a->o.config->audit_max)
		return 0;
	if (store_audit_largest(a->store, tenant, e) < 0)
		return -1;
	return prune_beyond(a, tenant, "audit_max", e);
}

/* The time of the clock as far as it has passed. A clock that is set forward would make every
 * record old at once, and nothing brings them back. */
static uint64_t prune_now_ms(const struct audit *a)
{
	uint64_t wall = clock_wall_ms(),
		 passed = a->begun_wall_ms + (clock_now_ns() - a->begun_ns) / CLOCK_MS;

	return wall < passed ? wall : passed;
}

/* Of one log: 1 if something went. */
static int prune_log(struct audit *a, struct store_audit_log *log, struct err *e)
{
	const struct config *g = a->o.config;
	uint64_t now = prune_now_ms(a), bytes;
	int done = 0;

	if (g->audit_retention_ms > 0 && now > g->audit_retention_ms)
		done = audit_prune_tile(a, log, now - g->audit_retention_ms, "audit_retention",
					NULL, e);
	if (done != 0 || g->tenant_audit_max == 0)
		return done;
	if (store_audit_bytes(a->store, log->tenant, &bytes, e) < 0)
		return -1;
	return bytes <= g->tenant_audit_max ? 0
					    : prune_beyond(a, log->tenant, "tenant_audit_max", e);
}

/* A piece looks at one log, or deletes one tile. */
bool audit_prune_on_piece(struct job *job)
{
	struct audit *a = job->arg;
	struct audit_prune_found f = { .any = false };
	struct err e = { 0 };
	int done = a->prune_after == 0 ? prune_node(a, &e) : 0;

	if (done == 0 && store_audit_log_each(a->store, a->prune_after, 1, on_log, &f, &e) < 0)
		done = -1;
	if (done == 0 && f.any)
		done = prune_log(a, &f.log, &e);
	if (done < 0)
		log_error("old records of the audit log could not be deleted", "error=%s", e.msg);
	if (done == 0 && f.any)
		a->prune_after = f.log.id;
	if (done > 0 || (done == 0 && f.any))
		return true;
	a->prune_after = 0;
	return false;
}

void audit_retention_start(struct audit *a)
{
	jobs_add(a->o.jobs, a->o.work, &a->pruning);
}
