/* fair_queue.h - a queue in which tenants take turns, and the sessions of a tenant among
 * themselves. Pure. Used by handshakes.c.
 *
 * Items of one session are taken in the order they were added. Sessions of one tenant one item
 * each in turn. Tenants likewise. So a session that adds many items delays only itself. All
 * structures are embedded in those they belong to, and start zeroed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fair_queue_session;
struct fair_queue_tenant;

struct fair_queue_item {
	struct fair_queue_item *next;
	struct fair_queue_session *session; /* NULL: it is not queued */
};

/* One session. */
struct fair_queue_session {
	struct fair_queue_session *next;
	struct fair_queue_tenant *tenant; /* NULL: nothing of it is queued */
	struct fair_queue_item *first, *last;
	uint64_t turn; /* the turn in which `taken` items were taken */
	unsigned taken;
};

/* One tenant. */
struct fair_queue_tenant {
	struct fair_queue_tenant *next;
	struct fair_queue_session *first, *last;
};

struct fair_queue {
	struct fair_queue_tenant *first, *last;
	/* May the first item of a session be taken now? If not, the session is skipped. */
	bool (*may_take)(struct fair_queue_item *i);
};

/* An item is queued once at most (asserted). */
void fair_queue_add(struct fair_queue *f, struct fair_queue_tenant *t, struct fair_queue_session *s,
		    struct fair_queue_item *i);
/* Take it out of the queue. No effect if it is not queued. */
void fair_queue_drop(struct fair_queue *f, struct fair_queue_item *i);
/* The next item, taken out of the queue. At most `most` of one session with the same turn number.
 * NULL: none may be taken. */
struct fair_queue_item *fair_queue_take(struct fair_queue *f, uint64_t turn, unsigned most);
