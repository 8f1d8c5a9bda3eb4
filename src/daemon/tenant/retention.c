/* retention.c - theory of operation
 *
 * One job of the node (jobs.h) deletes records beyond their age or number: ended sessions with
 * their executions, output, network records and packages, then events, network records, packages,
 * old usage, and free pages of the database file. A piece deletes a few dozen rows or files, the
 * steps take turns, and the job continues until none of them finds anything. So it keeps up with
 * the writers, and no turn of the loop is long, however much there is to delete.
 *
 * The space of large logs is freed by jobs of their own (log_removal.c), and the next executions
 * are deleted when the space of the last ones is free.
 *
 * The row of a session is deleted last, after the logs and rows of its executions and its network
 * records. If the daemon is killed in between, the next one finds the rest by the session's row.
 *
 * The job is started once a second, and after every START_EVERY records (record_quota.c). */
#include "daemon/tenant/retention.h"

#include <stdio.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/output/log_removal.h"
#include "daemon/session/session.h"
#include "daemon/session/session_diff.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_package.h"
#include "daemon/store/store_sample.h"
#include "daemon/store/store_usage.h"
#include "daemon/template/snapshot.h"
#include "daemon/tenant/record_quota.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_key.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define EXECUTIONS 32  /* with their logs, in a piece */
#define NET_WEIGHT 256 /* of a session's network records */
#define SAMPLES 64     /* of its history, and hours of its usage */
#define USAGE_ROWS 256
#define SHRINK_PAGES 32 /* given back to the file system */

static void remove_log(const char *id, const char *tenant, void *cookie)
{
	struct core *c = cookie;
	struct tenant *t = tenant_find(c, tenant);
	char name[LOG_NAME_MAX];
	uint64_t bytes;

	(void)snprintf(name, sizeof(name), "%s.log", id);
	if (log_removal_add(&c->removed_logs, t == NULL ? NULL : &t->removal, name, LOG_IS_OLD,
			    &bytes) &&
	    t != NULL)
		output_quota_gone(t, bytes);
}

static void log_failure(const char *what, const struct err *e)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	unsigned long long dropped;

	if (log_limit(&limit, &dropped))
		log_warn("retention failed, tried again in a second",
			 "what=%s error=%s dropped=%llu", what, e->msg, dropped);
}

/* Find the next session whose retention has ended. Skip a session still in memory: its row in the
 * store may be an older one. */
static bool find_session(struct core *c)
{
	struct retention *r = &c->retention;
	uint64_t now = core_now_ms(), keep = c->o.config->retention_ms;
	struct err e;
	int got =
		store_session_next_ended(c->store, r->after_ms, r->after_id,
					 now > keep ? now - keep + 1 : 0, &r->after_ms, r->id, &e);

	if (got < 0)
		log_failure("sessions", &e);
	if (got <= 0) {
		r->after_ms = 0;
		r->after_id[0] = r->id[0] = '\0';
		return false;
	}
	str_copy(r->after_id, r->id);
	if (session_by_id(c, r->id) != NULL)
		r->id[0] = '\0';
	return true;
}

/* The file is removed before the row: after a kill in between the next daemon finds the row. */
static int remove_session(struct core *c, const char *id, struct err *e)
{
	struct store_session row;

	if (store_session_get(c->store, id, &row, e) < 0)
		return -1;
	if (row.keep_diff == KEPT_DIFF_KEPT)
		kept_diff_remove(c, tenant_find(c, row.tenant), id);
	store_session_release(&row);
	return store_session_delete(c->store, id, e);
}

/* Delete the oldest network records of the session in deletion. Return how many. */
static int drop_net(struct core *c, struct err *e)
{
	struct store_session row;
	uint64_t weight;
	int n = store_net_drop(c->store, c->retention.id, NET_WEIGHT, &weight, e);

	if (n > 0 && store_session_get(c->store, c->retention.id, &row, e) == 0) {
		record_bounds_add(c, tenant_find(c, row.tenant), RECORD_NET, -n);
		store_session_release(&row);
	}
	return n;
}

/* Delete the oldest packages of that session. */
static int drop_packages(struct core *c, struct err *e)
{
	struct store_session row;
	int n = store_package_drop(c->store, c->retention.id, NET_WEIGHT, e);

	if (n > 0 && store_session_get(c->store, c->retention.id, &row, e) == 0) {
		record_bounds_add(c, tenant_find(c, row.tenant), RECORD_PACKAGE, -n);
		store_session_release(&row);
	}
	return n;
}

static bool retention_retire(struct core *c)
{
	struct retention *r = &c->retention;
	struct err e;
	int n;

	if (c->removed_logs.old > 0)
		return false; /* on_old_logs_gone() starts the job again */
	if (r->id[0] == '\0')
		return find_session(c);
	n = store_execution_delete_some(c->store, r->id, EXECUTIONS, remove_log, c, &e);
	if (n > 0)
		return true;
	if (n == 0)
		n = drop_net(c, &e);
	if (n == 0)
		n = drop_packages(c, &e);
	if (n == 0)
		n = store_sample_delete(c->store, r->id, SAMPLES, &e);
	if (n == 0)
		n = store_usage_delete_session(c->store, r->id, SAMPLES, &e);
	if (n > 0)
		return true;
	if (n == 0)
		n = store_net_claim_delete(c->store, r->id, &e);
	if (n == 0)
		n = store_package_sum_delete(c->store, r->id, &e);
	if (n == 0)
		n = store_usage_forget(c->store, r->id, &e);
	if (n == 0)
		n = remove_session(c, r->id, &e);
	if (n < 0) {
		log_failure("a session", &e);
		r->after_ms = 0;
		r->after_id[0] = '\0';
	}
	r->id[0] = '\0';
	return n == 0;
}

static uint64_t retention_before(const struct core *c)
{
	uint64_t now = core_now_ms(), keep = c->o.config->event_retention_ms;

	return now > keep ? now - keep : 0;
}

static bool bound_records(struct core *c, enum record_kind kind, const char *what)
{
	struct err e;
	int n = record_bounds_piece(c, kind, retention_before(c), &e);

	if (n < 0)
		log_failure(what, &e);
	return n > 0;
}

static bool prune_events(struct core *c)
{
	return bound_records(c, RECORD_EVENT, "events");
}

static bool prune_net(struct core *c)
{
	return bound_records(c, RECORD_NET, "network records");
}

static bool prune_packages(struct core *c)
{
	return bound_records(c, RECORD_PACKAGE, "packages");
}

static bool prune_usage(struct core *c)
{
	uint64_t now = core_now_ms(), keep = c->o.config->usage_retention_ms;
	struct err e;
	int n = store_usage_prune(c->store, now > keep ? now - keep : 0, USAGE_ROWS, &e);

	if (n < 0)
		log_failure("usage", &e);
	return n > 0;
}

static bool retention_shrink(struct core *c)
{
	struct err e;
	int n = store_shrink(c->store, SHRINK_PAGES, &e);

	if (n < 0)
		log_failure("free pages", &e);
	return n > 0;
}

/* Run the first step that finds something to do, beginning with the one after the last. */
static bool on_piece(struct job *j)
{
	static bool (*const steps[])(
		struct core * c) = { retention_retire,	    prune_events,    prune_net,
				     prune_packages,	    prune_usage,     key_expiry_piece,
				     snapshot_expire_piece, retention_shrink };
	struct core *c = j->arg;

	for (unsigned i = 0; i < COUNT(steps); i++) {
		unsigned at = (c->retention.step + i) % COUNT(steps);

		if (steps[at](c)) {
			c->retention.step = at + 1;
			return true;
		}
	}
	return false;
}

void retention_init(struct core *c)
{
	c->retention.job.on_piece = on_piece;
	c->retention.job.arg = c;
}

void retention_start(struct core *c)
{
	core_job_add(c, NULL, &c->retention.job);
}
