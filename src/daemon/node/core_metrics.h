/* core_metrics.h - the node's metrics: its counters, and the text for Prometheus. The counting
 * functions are called at the place of each event. core_metrics_write() reads the rest. */
#pragma once

#include "daemon/node/core.h"
#include "lib/base/byte_account.h"

struct buf;

enum core_metrics_outcome {
	CORE_METRICS_EXITED,
	CORE_METRICS_KILLED,
	CORE_METRICS_FAILED,
	CORE_METRICS_OUTCOMES
};

/* Count a request and its time. status: of HTTP, 0 if the client was dropped. */
void core_metrics_request(int status, uint64_t ns);
/* Count a new session and the time until it was usable. */
void core_metrics_created(uint64_t ns, bool from_pool);
/* limit: the one that ended it. limits_hit: all, with commas. */
void core_metrics_executed(uint64_t ns, enum core_metrics_outcome outcome, const char *limit,
			   const char *limits_hit);
/* Count covered places of output, by name (mask.h). */
void core_metrics_redacted(const uint64_t *counts, unsigned n);
/* Count a refused session by its reason. */
void core_metrics_refused(enum err_reason why);
/* Count a request for a package: its result (package_record_text.h), the cache's action, bytes of a
 * file. */
void core_metrics_package(const char *result, const char *cache, uint64_t bytes);
/* Count a changed statement of a registry about a package. kind: "changed", "backdated". */
void core_metrics_package_alarm(const char *kind);
/* An alarm of that kind was raised. */
void core_metrics_alarm(const char *kind);
/* Set the number of polled directory watchers, and the bytes of events waiting in them. */
void core_metrics_watchers(size_t n, size_t bytes);
/* The connections of clients, and the memory held for them. */
struct core_metrics_clients {
	size_t connections, unkeyed;
	struct byte_account held;
};
void core_metrics_clients(const struct core_metrics_clients *g);
/* cordon-egress and its traffic. */
struct core_metrics_network {
	unsigned processes,
		up;	   /* of cordon-egress: how many should run, and how many are connected */
	unsigned sessions; /* with a network now */
	uint64_t broken, invalid, records, refused, bytes_in, bytes_out, requests;
	uint64_t advisories,
		advisories_age_s; /* lines of the list, and the time since its import */
	bool cache_up;		  /* cordon-cache is connected */
	uint64_t cache_bytes, cache_objects, cache_evicted, cache_refused, cache_bad;
};
void core_metrics_network(const struct core_metrics_network *n);
struct core_metrics_pool {
	unsigned size, ready;
	uint64_t hits, misses;
};
/* Set the gauges of the node. sessions: their number in each state (SESSION_STATES). */
void core_metrics_node(const struct core *c, const unsigned *sessions,
		       const struct core_metrics_pool *pool);
/* Append all metrics as text. core_metrics_write() (core_run.h) sets the gauges first. */
void core_metrics_text(const struct core *c, struct buf *b);

/* Register the metrics. Once, before any is counted. */
void core_metrics_setup(void);
