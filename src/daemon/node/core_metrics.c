/* core_metrics.c - see core_metrics.h. A metric is a line of defs, and its number in the enum. */
#include "daemon/node/core_metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "daemon/audit/audit_checkpoint.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "lib/base/buf.h"
#include "lib/base/metrics.h"

enum {
	M_REQUESTS,
	M_REQUEST_TIME,
	M_SESSIONS,
	M_CREATE_TIME,
	M_EXECUTE_TIME,
	M_EXECUTIONS,
	M_LIMITS,
	M_REFUSED,
	M_POOL_SIZE,
	M_POOL_READY,
	M_POOL_HITS,
	M_POOL_MISSES,
	M_CELL_MEMORY,
	M_MEMORY_PROMISED,
	M_CELLS_FAILED,
	M_JOURNAL_PAGES,
	M_EGRESS_PROCESSES,
	M_EGRESS_UP,
	M_EGRESS_SESSIONS,
	M_EGRESS_BROKEN,
	M_EGRESS_INVALID,
	M_NET_RECORDS,
	M_NET_BYTES,
	M_NET_REQUESTS,
	M_PACKAGES,
	M_PACKAGE_BYTES,
	M_PACKAGE_CACHE,
	M_PACKAGE_ALARMS,
	M_ALARMS,
	M_CACHE_UP,
	M_CACHE_BYTES,
	M_CACHE_OBJECTS,
	M_CACHE_EVICTED,
	M_CACHE_REFUSED,
	M_CACHE_BAD,
	M_ADVISORIES,
	M_ADVISORIES_AGE,
	M_AUDIT_RECORDS,
	M_AUDIT_CHECKPOINTS,
	M_AUDIT_PRUNED,
	M_AUDIT_ALARMS,
	M_REDACTED,
	M_AUDIT_LATE,
	M_NOTARY_UP,
	M_CONNECTIONS,
	M_HELD,
	M_OPEN,
	M_WATCHERS,
	M_WATCHER_BYTES,
	M_COUNT
};

/* The label values below are part of the text that Prometheus reads: renaming one ends its time
 * series. */
static const char *const classes[] = { "dropped", "1xx", "2xx", "3xx", "4xx", "5xx" };
static const char *const states[] = { "creating", "running", "pausing", "paused",
				      "resuming", "ending",  "stopped" };
static const enum session_state states_of[] = { SESSION_CREATING, SESSION_RUNNING,  SESSION_PAUSING,
						SESSION_PAUSED,	  SESSION_RESUMING, SESSION_ENDING,
						SESSION_STOPPED };
static_assert(COUNT(states_of) == COUNT(states), "a state for each label");
static const char *const sources[] = { "pool", "fresh" };
static const char *const outcomes[] = { "exited", "killed", "failed" };
static const char *const limits[] = { "timeout", "memory", "pids", "disk",
				      "inodes",	 "output", "cpu",  "killed" };
static const char *const refusals[] = { "quota_sessions", "quota_rate",	       "quota_memory",
					"quota_storage",  "quota_pids",	       "quota_records",
					"quota_queue",	  "capacity_sessions", "capacity_memory",
					"capacity_rate",  "queue_timeout" };

static const char *const verdicts[] = { "allow", "deny" };
static const char *const package_results[] = { "passed", "hidden",     "refused",      "failed",
					       "cut",	 "downloaded", "hash_mismatch" };
static const char *const package_alarms[] = { "changed", "backdated" };
/* As in lib/policy/alarm_rules.c. */
static const char *const alarms[] = { "fork_burst",    "memory_jump",	"output_flood",
				      "refused_names", "refused_hosts", "package",
				      "cell_fault",    "refused_calls", "escape_attempt" };
static const char *const package_caches[] = { "hit", "miss", "revalidated", "stale", "bypass" };
static const char *const redacted[] = {
	"email", "phone", "card", "iban", "ip", "token", "pattern"
};
static const char *const audit_alarms[] = { "rollback", "fork", "gap", "key" };
static const char *const directions[] = { "in", "out" };
static const char *const keyed[] = { "yes", "no" };
static const char *const held[] = { "bodies", "unread" };

static const struct metrics_def defs[] = {
	/* clang-format off */
	[M_REQUESTS] = { METRICS_COUNTER, "cordon_requests_total", "HTTP requests by class of answer.", "status", classes, COUNT(classes) },
	[M_REQUEST_TIME] = { METRICS_HISTOGRAM, "cordon_request_seconds", "Time to answer a request.", NULL, NULL, 0 },
	[M_SESSIONS] = { METRICS_GAUGE, "cordon_sessions", "Live sessions by state.", "state", states, COUNT(states) },
	[M_CREATE_TIME] = { METRICS_HISTOGRAM, "cordon_create_seconds", "Time until a session is ready.", "from", sources, COUNT(sources) },
	[M_EXECUTE_TIME] = { METRICS_HISTOGRAM, "cordon_execution_seconds", "Time from an execution's request to its end.", NULL, NULL, 0 },
	[M_EXECUTIONS] = { METRICS_COUNTER, "cordon_executions_total", "Executions by outcome.", "outcome", outcomes, COUNT(outcomes) },
	[M_LIMITS] = { METRICS_COUNTER, "cordon_limit_hits_total", "Executions during which a limit was hit, or that were killed.", "limit", limits, COUNT(limits) },
	[M_REFUSED] = { METRICS_COUNTER, "cordon_refused_total", "Sessions refused.", "why", refusals, COUNT(refusals) },
	[M_POOL_SIZE] = { METRICS_GAUGE, "cordon_pool_size", "Cells the pool wants to have ready.", NULL, NULL, 0 },
	[M_POOL_READY] = { METRICS_GAUGE, "cordon_pool_ready", "Cells that are ready.", NULL, NULL, 0 },
	[M_POOL_HITS] = { METRICS_COUNTER, "cordon_pool_hits_total", "Sessions that got a ready cell.", NULL, NULL, 0 },
	[M_POOL_MISSES] = { METRICS_COUNTER, "cordon_pool_misses_total", "Sessions that had to wait for theirs.", NULL, NULL, 0 },
	[M_CELL_MEMORY] = { METRICS_GAUGE, "cordon_cell_memory_bytes", "Memory that live cells use, a few seconds ago.", NULL, NULL, 0 },
	[M_MEMORY_PROMISED] = { METRICS_GAUGE, "cordon_memory_promised_bytes", "Sum of the memory limits of live sessions.", NULL, NULL, 0 },
	[M_CELLS_FAILED] = { METRICS_COUNTER, "cordon_cells_failed_total", "Cells that could not be made.", NULL, NULL, 0 },
	[M_JOURNAL_PAGES] = { METRICS_GAUGE, "cordon_store_journal_pages", "Pages in the store's journal.", NULL, NULL, 0 },
	[M_EGRESS_PROCESSES] = { METRICS_GAUGE, "cordon_egress_processes", "Processes of cordon-egress that there should be.", NULL, NULL, 0 },
	[M_EGRESS_UP] = { METRICS_GAUGE, "cordon_egress_up", "Processes of cordon-egress that are connected.", NULL, NULL, 0 },
	[M_EGRESS_SESSIONS] = { METRICS_GAUGE, "cordon_egress_sessions", "Sessions that have a network now.", NULL, NULL, 0 },
	[M_EGRESS_BROKEN] = { METRICS_COUNTER, "cordon_egress_broken_total", "Channels to cordon-egress that were given up.", NULL, NULL, 0 },
	[M_EGRESS_INVALID] = { METRICS_COUNTER, "cordon_egress_invalid_total", "Records of cordon-egress that could not be read and were dropped.", NULL, NULL, 0 },
	[M_NET_RECORDS] = { METRICS_COUNTER, "cordon_network_records_total", "What sessions tried to reach, by verdict.", "verdict", verdicts, COUNT(verdicts) },
	[M_NET_BYTES] = { METRICS_COUNTER, "cordon_network_bytes_total", "Bytes of sessions, by direction.", "direction", directions, COUNT(directions) },
	[M_NET_REQUESTS] = { METRICS_COUNTER, "cordon_network_requests_total", "Requests of sessions that were seen.", NULL, NULL, 0 },
	[M_PACKAGES] = { METRICS_COUNTER, "cordon_packages_total", "Requests of sessions for packages, by result.", "result", package_results, COUNT(package_results) },
	[M_PACKAGE_BYTES] = { METRICS_COUNTER, "cordon_package_bytes_total", "Bytes of package files that sessions got.", NULL, NULL, 0 },
	[M_PACKAGE_CACHE] = { METRICS_COUNTER, "cordon_package_cache_total", "Requests for packages, by what the cache did.", "cache", package_caches, COUNT(package_caches) },
	[M_PACKAGE_ALARMS] = { METRICS_COUNTER, "cordon_package_alarms_total", "Requests for packages of which a registry said something else than before, by what.", "kind", package_alarms, COUNT(package_alarms) },
	[M_ALARMS] = { METRICS_COUNTER, "cordon_alarms_total", "Alarms of sessions, by kind.", "kind", alarms, COUNT(alarms) },
	[M_CACHE_UP] = { METRICS_GAUGE, "cordon_package_cache_up", "1 while cordon-cache is connected.", NULL, NULL, 0 },
	[M_CACHE_BYTES] = { METRICS_GAUGE, "cordon_package_cache_bytes", "Bytes that cordon-cache keeps.", NULL, NULL, 0 },
	[M_CACHE_OBJECTS] = { METRICS_GAUGE, "cordon_package_cache_objects", "Files that cordon-cache keeps.", NULL, NULL, 0 },
	[M_CACHE_EVICTED] = { METRICS_GAUGE, "cordon_package_cache_evicted", "Files that this cordon-cache removed to make room.", NULL, NULL, 0 },
	[M_CACHE_REFUSED] = { METRICS_GAUGE, "cordon_package_cache_refused", "Files that this cordon-cache did not take: no room, or wrong bytes.", NULL, NULL, 0 },
	[M_CACHE_BAD] = { METRICS_GAUGE, "cordon_package_cache_bad", "Files that this cordon-cache found damaged.", NULL, NULL, 0 },
	[M_ADVISORIES] = { METRICS_GAUGE, "cordon_advisories", "Lines of the list of malicious packages; 0: none was imported.", NULL, NULL, 0 },
	[M_ADVISORIES_AGE] = { METRICS_GAUGE, "cordon_advisories_age_seconds", "Time since the list of malicious packages was imported.", NULL, NULL, 0 },
	[M_AUDIT_RECORDS] = { METRICS_COUNTER, "cordon_audit_records_total", "Records of audit logs.", NULL, NULL, 0 },
	[M_AUDIT_CHECKPOINTS] = { METRICS_COUNTER, "cordon_audit_checkpoints_total", "Signed checkpoints of audit logs.", NULL, NULL, 0 },
	[M_AUDIT_PRUNED] = { METRICS_COUNTER, "cordon_audit_pruned_total", "Records of audit logs that were deleted because they were old, or too many.", NULL, NULL, 0 },
	[M_AUDIT_ALARMS] = { METRICS_COUNTER, "cordon_audit_alarms_total", "Audit logs that were not what had been signed, by what was found.", "kind", audit_alarms, COUNT(audit_alarms) },
	[M_REDACTED] = { METRICS_COUNTER, "cordon_redacted_total", "Places of output that were covered, by the name of what was there.", "name", redacted, COUNT(redacted) },
	[M_AUDIT_LATE] = { METRICS_GAUGE, "cordon_audit_late_seconds", "Since when checkpoints could not be signed. 0: they can.", NULL, NULL, 0 },
	[M_NOTARY_UP] = { METRICS_GAUGE, "cordon_notary_up", "1 while cordon-notary is connected.", NULL, NULL, 0 },
	[M_CONNECTIONS] = { METRICS_GAUGE, "cordon_connections", "Connections of clients, by whether they have shown a key.", "key", keyed, COUNT(keyed) },
	[M_HELD] = { METRICS_GAUGE, "cordon_request_bytes", "Bytes in memory of request bodies and of answers that wait to be read.", "of", held, COUNT(held) },
	[M_OPEN] = { METRICS_GAUGE, "cordon_requests_open", "Requests of tenants that are under way, streams included.", NULL, NULL, 0 },
	[M_WATCHERS] = { METRICS_GAUGE, "cordon_watchers", "Watchers of directories that clients poll.", NULL, NULL, 0 },
	[M_WATCHER_BYTES] = { METRICS_GAUGE, "cordon_watcher_event_bytes", "Bytes of events that wait in them.", NULL, NULL, 0 },
	/* clang-format on */
};
_Static_assert(COUNT(defs) == M_COUNT, "one definition for each metric");

void core_metrics_clients(const struct core_metrics_clients *g)
{
	metrics_set(M_CONNECTIONS, 0, (int64_t)(g->connections - g->unkeyed));
	metrics_set(M_CONNECTIONS, 1, (int64_t)g->unkeyed);
	metrics_set(M_HELD, 0, (int64_t)g->held.bodies);
	metrics_set(M_HELD, 1, (int64_t)g->held.unread);
}

void core_metrics_watchers(size_t n, size_t bytes)
{
	metrics_set(M_WATCHERS, 0, (int64_t)n);
	metrics_set(M_WATCHER_BYTES, 0, (int64_t)bytes);
}

void core_metrics_setup(void)
{
	metrics_setup(defs, COUNT(defs));
}

/* Find the place of a word in a list, or -1: unlisted words are not counted, so labels stay few. */
/* Linear, because the lists are short and constant. */
static int metrics_place(const char *const *list, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], word) == 0)
			return (int)i;
	return -1;
}

/* An answer without a valid status was cut off: the client is counted as dropped. */
void core_metrics_request(int status, uint64_t ns)
{
	metrics_add(M_REQUESTS, status < 100 || status > 599 ? 0 : (unsigned)status / 100, 1);
	metrics_observe_ns(M_REQUEST_TIME, 0, ns);
}

void core_metrics_created(uint64_t ns, bool from_pool)
{
	metrics_observe_ns(M_CREATE_TIME, from_pool ? 0 : 1, ns);
}

/* Each limit hit counts once, also for an execution that ended well. */
void core_metrics_executed(uint64_t ns, enum core_metrics_outcome outcome, const char *limit,
			   const char *limits_hit)
{
	int at = metrics_place(limits, COUNT(limits), limit);
	bool told = false;
	char word[16];

	metrics_observe_ns(M_EXECUTE_TIME, 0, ns);
	metrics_add(M_EXECUTIONS, outcome, 1);
	for (const char *p = limits_hit; *p != '\0';) {
		size_t n = strcspn(p, ",");
		(void)snprintf(word, sizeof(word), "%.*s", (int)n, p);
		int found = metrics_place(limits, COUNT(limits), word);

		told = told || found == at;
		if (found >= 0)
			metrics_add(M_LIMITS, (unsigned)found, 1);
		p += n + (p[n] == ',');
	}
	if (at >= 0 && !told) /* "killed" is in no list */
		metrics_add(M_LIMITS, (unsigned)at, 1);
}

void core_metrics_package(const char *result, const char *cache, uint64_t bytes)
{
	int at = metrics_place(package_results, COUNT(package_results), result);
	int from = metrics_place(package_caches, COUNT(package_caches), cache);

	if (at >= 0)
		metrics_add(M_PACKAGES, (unsigned)at, 1);
	if (from >= 0)
		metrics_add(M_PACKAGE_CACHE, (unsigned)from, 1);
	metrics_add(M_PACKAGE_BYTES, 0, bytes);
}

void core_metrics_package_alarm(const char *kind)
{
	int at = metrics_place(package_alarms, COUNT(package_alarms), kind);

	if (at >= 0)
		metrics_add(M_PACKAGE_ALARMS, (unsigned)at, 1);
}

void core_metrics_redacted(const uint64_t *counts, unsigned n)
{
	for (unsigned i = 0; i < n && i < COUNT(redacted); i++)
		if (counts[i] > 0)
			metrics_add(M_REDACTED, i, counts[i]);
}

void core_metrics_alarm(const char *kind)
{
	int at = metrics_place(alarms, COUNT(alarms), kind);

	if (at >= 0)
		metrics_add(M_ALARMS, (unsigned)at, 1);
}

void core_metrics_refused(enum err_reason why)
{
	int at = metrics_place(refusals, COUNT(refusals), err_reason_name(why));

	if (at >= 0)
		metrics_add(M_REFUSED, (unsigned)at, 1);
}

/* Raise a counter to a value kept elsewhere. Counters only grow, so a smaller value (after a
 * restart of its source) changes nothing. */
static void catch_up(unsigned metric, unsigned label, uint64_t to)
{
	uint64_t now = (uint64_t)metrics_get(metric, label);

	if (to > now)
		metrics_add(metric, label, to - now);
}

void core_metrics_network(const struct core_metrics_network *n)
{
	metrics_set(M_EGRESS_PROCESSES, 0, n->processes);
	metrics_set(M_EGRESS_UP, 0, n->up);
	metrics_set(M_EGRESS_SESSIONS, 0, n->sessions);
	catch_up(M_EGRESS_BROKEN, 0, n->broken);
	catch_up(M_EGRESS_INVALID, 0, n->invalid);
	catch_up(M_NET_RECORDS, 0, n->records - n->refused);
	catch_up(M_NET_RECORDS, 1, n->refused);
	catch_up(M_NET_BYTES, 0, n->bytes_in);
	catch_up(M_NET_BYTES, 1, n->bytes_out);
	catch_up(M_NET_REQUESTS, 0, n->requests);
	metrics_set(M_CACHE_UP, 0, n->cache_up ? 1 : 0);
	metrics_set(M_CACHE_BYTES, 0, (int64_t)n->cache_bytes);
	metrics_set(M_CACHE_OBJECTS, 0, (int64_t)n->cache_objects);
	metrics_set(M_CACHE_EVICTED, 0, (int64_t)n->cache_evicted);
	metrics_set(M_CACHE_REFUSED, 0, (int64_t)n->cache_refused);
	metrics_set(M_CACHE_BAD, 0, (int64_t)n->cache_bad);
	metrics_set(M_ADVISORIES, 0, (int64_t)n->advisories);
	metrics_set(M_ADVISORIES_AGE, 0, (int64_t)n->advisories_age_s);
}

/* Sums over all sessions would take too long at each read, so some values are those of the last
 * sample. */
static void core_metrics_raise(unsigned metric, unsigned value, uint64_t now)
{
	uint64_t before = (uint64_t)metrics_get(metric, value);

	if (now > before)
		metrics_add(metric, value, now - before);
}

static void core_metrics_audit(const struct core *c)
{
	struct audit_counts n;

	audit_counts(c->audit, &n);
	core_metrics_raise(M_AUDIT_RECORDS, 0, n.records);
	core_metrics_raise(M_AUDIT_CHECKPOINTS, 0, n.checkpoints);
	core_metrics_raise(M_AUDIT_PRUNED, 0, n.pruned);
	core_metrics_raise(M_AUDIT_ALARMS, 0, n.alarms_rollback);
	core_metrics_raise(M_AUDIT_ALARMS, 1, n.alarms_fork);
	core_metrics_raise(M_AUDIT_ALARMS, 2, n.alarms_gap);
	core_metrics_raise(M_AUDIT_ALARMS, 3, n.alarms_key);
	metrics_set(M_AUDIT_LATE, 0, (int64_t)(n.late_ms / 1000));
	metrics_set(M_NOTARY_UP, 0, n.notary_up);
}

void core_metrics_node(const struct core *c, const unsigned *sessions,
		       const struct core_metrics_pool *pool)
{
	for (unsigned i = 0; i < COUNT(states_of); i++)
		metrics_set(M_SESSIONS, i, sessions[states_of[i]]);
	core_metrics_audit(c);
	metrics_set(M_POOL_SIZE, 0, pool->size);
	metrics_set(M_POOL_READY, 0, pool->ready);
	catch_up(M_POOL_HITS, 0, pool->hits);
	catch_up(M_POOL_MISSES, 0, pool->misses);
	catch_up(M_CELLS_FAILED, 0, c->cells.failed);
	metrics_set(M_OPEN, 0, c->requests);
	metrics_set(M_CELL_MEMORY, 0, (int64_t)c->cell_memory_bytes);
	metrics_set(M_MEMORY_PROMISED, 0, (int64_t)c->memory_bytes);
	metrics_set(M_JOURNAL_PAGES, 0, store_journal_pages(c->store));
}

void core_metrics_text(const struct core *c, struct buf *b)
{
	metrics_write(b);
	turns_write(loop_turns(c->loop), "cordon", b);
}
