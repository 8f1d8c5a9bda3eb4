/* metrics.h - counters, gauges and histograms in one static table. Prometheus text.
 *
 * A program declares its metrics as a table, indexed by an enum. A value is named by the enum and
 * the index of its label's value (0 for a metric without a label):
 *
 *	enum { M_REQUESTS, M_SESSIONS, M_CREATE };
 *	static const char *const states[] = { "running", "paused" };
 *	static const struct metrics_def defs[] = {
 *		[M_SESSIONS] = { METRICS_GAUGE, "cordon_sessions", "Sessions by state.",
 *				 "state", states, COUNT(states) },
 *		...
 *	};
 *	metrics_setup(defs, COUNT(defs));
 *	metrics_set(M_SESSIONS, 1, 17);
 *
 * A too large table, an invalid name and an index out of range fail an assertion. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;

#define METRICS_MAX 128	   /* metrics */
#define METRICS_SLOTS 4096 /* numbers, of which a histogram takes METRICS_BUCKETS + 2 per value */
#define METRICS_BUCKETS 17 /* upper bounds from 0.5 ms to 60 s. +Inf is the count */

enum metrics_kind { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM, METRICS_KINDS };

struct metrics_def {
	enum metrics_kind kind;
	const char *name; /* counters end in _total, histograms in _seconds */
	const char *help;
	const char *label; /* NULL: none */
	const char *const *values;
	size_t nvalues;
};

/* The table must stay valid for the life of the process. All values are 0 afterwards. */
void metrics_setup(const struct metrics_def *defs, size_t n);

void metrics_add(unsigned metric, unsigned value, uint64_t n);			/* a counter */
void metrics_set(unsigned metric, unsigned value, int64_t now);			/* a gauge */
void metrics_observe_ns(unsigned metric, unsigned value, uint64_t duration_ns); /* a histogram */

/* The value of a counter or gauge, or a histogram's number of observations. For tests, and for
 * values also shown elsewhere. */
int64_t metrics_get(unsigned metric, unsigned value);

/* All of them in Prometheus' text format 0.0.4. Overflow shows in buf_check(). */
void metrics_write(struct buf *to);
