/* net_usage.h - what sessions have used of their network limits "in total". cordon-egress claims it
 * before it moves bytes (egress_msg.h): kept in the store, and sent to egress with every
 * configuration.
 *
 * Claims are written NET_USAGE_MS after they have changed, those of many sessions in one
 * transaction. An egress that outlives cordond reports all of them again over its new channel. Too
 * little is counted only if cordond dies and then egress, too, before the new cordond has written
 * its claims. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "daemon/store/store_net.h"
#include "lib/json/json.h"

struct net_usage_due;

struct json;
struct record_counts;

#define NET_USAGE_MS 200

void net_usage_init(struct net_usage_due *d, struct core *c);
void net_usage_release(struct net_usage_due *d);

/* Raises the claims of the session to these. A lower number is ignored. */
void net_usage_take(struct session *s, const struct record_counts *counts);
/* Write the member "used" of a configuration. */
int net_usage_write(struct session *s, struct json *j, struct err *e) MUST_USE;
/* The session ends: deletes its claims. */
void net_usage_end(struct session *s);
/* Write the unwritten counts, and free the memory. */
void net_usage_forget(struct session *s);

/* ---- composes what cordon-egress is told of a session (egress_msg.h). Called by
 * session_egress.c when it is the session's turn. */

/* The text of EGRESS_CHANGE, or without a policy that of EGRESS_SECRETS, into an empty j, wiped
 * when it is released. *ret_cost: the bytes of it that count, those of secrets more than once. */
int egress_config_write(struct session *s, const char *policy, struct json *j, size_t *ret_cost,
			struct err *e) MUST_USE;
