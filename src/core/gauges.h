/* gauges.h - the node's metrics: what is counted, and the text that Prometheus reads. */
#pragma once

#include "core.h"
#include "tally.h"

struct buf;

enum gauges_outcome { GAUGES_EXITED, GAUGES_KILLED, GAUGES_FAILED, GAUGES_OUTCOMES };

void gauges_request(int status, uint64_t ns);
void gauges_created(uint64_t ns, bool from_pool);
void gauges_executed(uint64_t ns, enum gauges_outcome outcome, const char *limit);
void gauges_refused(const char *why);
/* Polled watchers of directories, and the bytes of events that wait in them. */
void gauges_watchers(size_t n, size_t bytes);
/* Connections of clients, and what is in memory for them. */
struct gauges_clients {
	size_t connections, unkeyed;
	struct tally held;
};
void gauges_clients(const struct gauges_clients *g);
/* Everything, with what is read now (sessions by state, cell memory, pool). */
int gauges_write(struct core *c, struct buf *b, struct err *e) MUST_USE;

struct gauges_pool {
	unsigned size, ready;
	uint64_t hits, misses;
};
void gauges_pool(const struct core *c, struct gauges_pool *ret);
