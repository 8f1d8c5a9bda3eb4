/* net_usage.h - what sessions have used of their limits "in total", as egress says before it moves
 * bytes (egress_msg.h): kept in the store, and given back with every order.
 *
 * It is written NET_USAGE_MS after it has changed, many sessions in one transaction. An egress that
 * outlives cordond says everything again over its new channel; so only if egress dies, too, before
 * the new cordond has written it, less is counted than was used. */
#pragma once

#include "core.h"
#include "store_used.h"

struct json;
struct record_counts;

#define NET_USAGE_MS 200

struct net_usage_row {
	struct store_used row;
	bool unsaved;
};

struct net_usage {
	struct net_usage_row *rows; /* owned; in order of rules, the session's own first */
	size_t n, room;
	bool loaded; /* from the store */
	bool due;    /* in the core's list */
	struct session *next, *prev;
};

/* Of the core: who has something to be written. */
struct net_usage_due {
	struct core *core;
	struct session *first;
	struct loop_timer timer;
};

void net_usage_init(struct net_usage_due *d, struct core *c);
void net_usage_release(struct net_usage_due *d);

/* Never counts down. */
void net_usage_take(struct session *s, const struct record_counts *counts);
/* The member "used" of an order. */
int net_usage_write(struct session *s, struct json *j, struct err *e) MUST_USE;
/* The session ends: nothing of it is needed any more. */
void net_usage_end(struct session *s);
/* From memory; what was not written is, first. */
void net_usage_forget(struct session *s);
