/* net_state.h - what network access keeps for the node and for each session. Only structures, for
 * the files of this folder; functions are declared in the header of the file that has them. */
#pragma once

#include "egress_links.h"
#include "net_log.h"
#include "net_refusals.h"
#include "net_usage.h"
#include "package_cache.h"
#include "session_egress.h"

struct policy_memo;

/* What network access keeps for the node. */
struct net_access {
	struct core *core; /* borrowed */
	struct egress_links egress;
	struct package_cache cache;
	char *default_policy;	    /* owned: of sessions that do not have one */
	struct policy_memo *merged; /* owned: the last merged policies */
	struct net_usage_due used;
	struct net_log_listener *listeners;
	struct loop_task notify; /* calls the listeners */
	uint64_t stored;	 /* records, since the start */
};

/* And for a session. */
struct net_session {
	struct session_egress egress;
	uint64_t records;	 /* weight of its records; 0: not counted yet */
	uint64_t packages;	 /* rows of its packages; 0: not counted yet */
	unsigned package_alarms; /* events of them, since cordond started */
	struct net_usage used;
	struct net_refusals refused;
};

/* net_access.c: made with the core. */
struct net_access *net_access_of(const struct core *c);
/* net_access.c: made at the first call. */
struct net_session *net_session_of(const struct session *s);
