/* net_used.h - what sessions have used of their limits "in total", as egress says before it moves
 * bytes (egress_msg.h): kept in the store, and given back with every order.
 *
 * It is written NET_USED_MS after it has changed, many sessions in one transaction. An egress that
 * outlives cordond says everything again over its new channel; so only if egress dies, too, before
 * the new cordond has written it, less is counted than was used. */
#pragma once

#include "core.h"
#include "store_used.h"

struct json;
struct record_counts;

#define NET_USED_MS 200

struct net_used_row {
	struct store_used row;
	bool unsaved;
};

struct net_used {
	struct net_used_row *rows; /* owned; in order of rules, the session's own first */
	size_t n, room;
	bool loaded; /* from the store */
	bool due;    /* in the core's list */
	struct session *next, *prev;
};

/* Of the core: who has something to be written. */
struct net_used_due {
	struct core *core;
	struct session *first;
	struct loop_timer timer;
};

void net_used_init(struct net_used_due *d, struct core *c);
void net_used_release(struct net_used_due *d);

/* Never counts down. */
void net_used_take(struct session *s, const struct record_counts *counts);
/* The member "used" of an order. */
int net_used_write(struct session *s, struct json *j, struct err *e) MUST_USE;
/* The session ends: nothing of it is needed any more. */
void net_used_end(struct session *s);
/* From memory; what was not written is, first. */
void net_used_forget(struct session *s);
