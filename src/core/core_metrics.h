/* core_metrics.h - the node's metrics: what is counted, and the text that Prometheus reads. The
 * functions that count are called where things happen; core_metrics_write() reads the rest. */
#pragma once

#include "core.h"
#include "byte_account.h"

struct buf;

enum core_metrics_outcome {
	CORE_METRICS_EXITED,
	CORE_METRICS_KILLED,
	CORE_METRICS_FAILED,
	CORE_METRICS_OUTCOMES
};

void core_metrics_request(int status, uint64_t ns);
void core_metrics_created(uint64_t ns, bool from_pool);
/* limit: what ended it; limits_hit: all, with commas. */
void core_metrics_executed(uint64_t ns, enum core_metrics_outcome outcome, const char *limit,
			   const char *limits_hit);
void core_metrics_refused(enum err_reason why);
/* A request for a package: how it ended (package_record_text.h), what the cache did, bytes of a
 * file. */
void core_metrics_package(const char *result, const char *cache, uint64_t bytes);
/* A registry said something else of a package than before. kind: "changed", "backdated". */
void core_metrics_package_alarm(const char *kind);
/* Sets the number of polled watchers of directories, and the bytes of events that wait in them. */
void core_metrics_watchers(size_t n, size_t bytes);
/* The connections of clients, and what is in memory for them. */
struct core_metrics_clients {
	size_t connections, unkeyed;
	struct byte_account held;
};
void core_metrics_clients(const struct core_metrics_clients *g);
/* cordon-egress and what went through it. */
struct core_metrics_network {
	unsigned processes, up; /* of cordon-egress: how many there should be, and are connected */
	unsigned sessions;	/* that have a network now */
	uint64_t broken, invalid, records, refused, bytes_in, bytes_out, requests;
	uint64_t advisories, advisories_age_s; /* lines of the list; since its import */
	bool cache_up;			       /* cordon-cache is connected */
	uint64_t cache_bytes, cache_objects, cache_evicted, cache_refused, cache_bad;
};
void core_metrics_network(const struct core_metrics_network *n);
/* Writes all metrics, after reading what is not counted: sessions by state, cell memory, the pool.
 */
int core_metrics_write(struct core *c, struct buf *b, struct err *e) MUST_USE;

struct core_metrics_pool {
	unsigned size, ready;
	uint64_t hits, misses;
};
void core_metrics_pool(const struct core *c, struct core_metrics_pool *ret);

void core_metrics_setup(void);
