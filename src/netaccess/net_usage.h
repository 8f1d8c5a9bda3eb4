/* net_usage.h - what sessions have used of their network limits "in total". cordon-egress claims it
 * before it moves bytes (egress_msg.h): kept in the store, and sent to egress with every
 * configuration.
 *
 * Claims are written NET_USAGE_MS after they have changed, those of many sessions in one
 * transaction. An egress that outlives cordond reports all of them again over its new channel. Too
 * little is counted only if cordond dies and then egress, too, before the new cordond has written
 * its claims. */
#pragma once

#include "core.h"
#include "store_net_claim.h"

struct json;
struct record_counts;

#define NET_USAGE_MS 200

struct net_usage_row {
	struct store_net_claim row;
	bool unsaved;
};

struct net_usage {
	struct net_usage_row *rows; /* owned; in order of rules, the session's own first */
	size_t n, room;
	bool loaded; /* from the store */
	bool due;    /* in the list of those to be written */
	struct session *next, *prev;
};

/* The list of sessions with claims to be written; a member of struct net_access. */
struct net_usage_due {
	struct core *core;
	struct session *first;
	struct loop_timer timer;
};

void net_usage_init(struct net_usage_due *d, struct core *c);
void net_usage_release(struct net_usage_due *d);

/* Raises the claims of the session to these; a lower number is ignored. */
void net_usage_take(struct session *s, const struct record_counts *counts);
/* Writes the member "used" of a configuration. */
int net_usage_write(struct session *s, struct json *j, struct err *e) MUST_USE;
/* The session ends: deletes its claims. */
void net_usage_end(struct session *s);
/* Writes what is not written yet, and frees the memory. */
void net_usage_forget(struct session *s);
