/* net_access.h - network access as a part of sessions (session_parts.h): the policy of each
 * session, the channel to cordon-egress, and the records of what sessions tried to reach.
 *
 * This header has the part's structures, for the files of this folder, and what cordond's main
 * calls. */
#pragma once

#include "egress_links.h"
#include "net_log.h"
#include "net_usage.h"
#include "session_egress.h"
#include "session_parts.h"

struct policy_memo;

extern const struct session_part net_access_part;

/* The channel C of a new cordon-egress, taken over; slot: which of them. Also called when one
 * replaces another. */
int net_access_set_egress(struct core *c, unsigned slot, int channel_fd, struct err *e) MUST_USE;

/* ---- for the files of this folder */

/* Of the node. */
struct net_access {
	struct core *core; /* borrowed */
	struct egress_links egress;
	char *default_policy;	    /* owned: of sessions that do not have one */
	struct policy_memo *merged; /* owned: the last merged policies */
	struct net_usage_due used;
	struct net_log_listener *listeners;
	struct loop_task tell; /* the listeners */
	uint64_t stored;       /* records, since the start */
};

/* Of a session. */
struct net_session {
	struct session_egress egress;
	uint64_t records; /* weight of its records; 0: not counted yet */
	struct net_usage used;
};

/* Set up with the core. */
struct net_access *net_access_of(const struct core *c);
/* Made at the first call. */
struct net_session *net_session_of(const struct session *s);
