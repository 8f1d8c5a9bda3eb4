/* net_state.h - the state of network access for the node and for each session, for the files of
 * this folder. Functions are declared in the header of their file. */
#pragma once

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/session_hooks.h"
#include "daemon/store/store_net.h"
#include "lib/channel/channel.h"
#include "lib/loop/turns.h"
#include "lib/wire/cache_msg.h"
#include "lib/wire/egress_msg.h"
#include "lib/wire/supervisor_msg.h"

struct net_log_listener;
struct net_refusal;
struct policy_memo;

/* ---- the channels to cordon-egress */

struct egress_lane;
struct egress_link;
struct egress_links;

/* Embedded in a session's part. All zeros: never used. */
struct egress_order {
	struct session *session;
	struct egress_lane *lane;	   /* NULL: it has not ordered anything yet */
	struct egress_order *next, **link; /* waiting. Link is NULL while it does not */
	bool under_way;			   /* sent and not answered */
};

struct egress_orders {
	struct egress_link *channel;	  /* borrowed */
	struct egress_lane *lanes;	  /* owned: of all tenants with sessions there */
	struct egress_lane *ready, **end; /* those that may send, the next one first */
	struct loop_task send;
};

struct egress_turns {
	struct turns turns; /* of the process connected now, or last */
	char slowest[TURNS_NAME_MAX];
	struct turns past; /* of those before it. Its slowest turn is not kept */
};

struct egress_numbers {
	uint64_t records, refused, bytes_in, bytes_out, requests;
	uint64_t broken;  /* channels given up */
	uint64_t invalid; /* records and counts that could not be read */
};

struct egress_link {
	struct egress_links *all; /* borrowed */
	struct core *core;	  /* borrowed */
	unsigned slot;		  /* in all */
	struct channel channel;
	bool synced;	 /* every session it should know was attached */
	bool waiting;	 /* sessions wait to be asked, because others are */
	bool recording;	 /* a transaction is open for the records of this turn */
	unsigned asking; /* PID 1s asked for their sockets, <= egress_link_asking_max() */
	uint64_t timeout_ms;
	struct loop_timer another; /* set while there is no channel: asks for another egress */
	bool hung;		   /* the last egress did not answer, and there is no other yet */
	struct egress_turns turns;
	struct egress_orders orders;
};

struct egress_links {
	struct core *core; /* borrowed */
	struct egress_link links[SERVE_EGRESS_MAX];
	unsigned n;
	struct loop_task sync;
	struct egress_numbers numbers; /* of all together */
};

/* ---- the channel to cordon-cache */

struct package_cache {
	struct core *core;	     /* borrowed */
	struct egress_links *egress; /* borrowed */
	struct channel channel;
	struct cache_stats last; /* of its last answer to a ping */
};

/* ---- used limits, refused hosts, the egress of a session */

struct net_usage_row {
	struct store_net_claim row;
	bool unsaved;
};

struct net_usage {
	struct net_usage_row *rows; /* owned. In order of rules, the session's own first */
	size_t n, room;
	bool loaded; /* from the store */
	bool due;    /* in the list of those to be written */
	struct session *next, *prev;
};

/* The list of sessions with claims to be written. A member of struct net_access. */
struct net_usage_due {
	struct core *core;
	struct session *first;
	struct loop_timer timer;
};

/* A session's part. All zeros: none yet. */
struct net_refusals {
	struct net_refusal *at; /* owned. NULL: none yet */
	unsigned n;		/* since the start. The ring has the last ones */
};

enum session_egress_state {
	SESSION_EGRESS_NONE,
	SESSION_EGRESS_WANTED,
	SESSION_EGRESS_ASKED,
	SESSION_EGRESS_SENT,
	SESSION_EGRESS_OPEN,
	SESSION_EGRESS_FAILED
};

struct session_egress {
	struct egress_link *link; /* borrowed: to the process that the session belongs to */
	enum session_egress_state state;
	bool config_only;	      /* paused: egress got the configuration without the sockets */
	bool creating;		      /* the session is not usable until its network is open */
	bool late;		      /* PID 1 was asked, and has not answered in time */
	struct egress_order order;    /* what is due is sent when its turn comes */
	unsigned due;		      /* SESSION_EGRESS_POLICY, ...: to be sent */
	int fds[EGRESS_FDS_MAX];      /* owned: due. [0] is -1: no sockets are due */
	bool claimed;		      /* an order was sent over this channel */
	uint64_t tenant_policy;	      /* which one of the tenant is in the last message */
	unsigned stale;		      /* orders before, whose answers are ignored */
	int owners;		      /* asked: egress's end of a socket for questions, or -1 */
	struct completion opened;     /* of creating */
	struct completions when_sent; /* wait for an order not sent yet */
	struct completions when_open; /* wait for the answer to the sent one */
	struct loop_timer timer;
	unsigned waits; /* how often it was set again */
};

/* Network records without their batch. A member of a session's part. */
struct net_batch {
	uint64_t weight; /* of rows since the last batch, about */
	uint64_t at_ns;	 /* when they get it */
	bool due;	 /* in the list */
	struct session *next, *prev;
};

struct net_batch_due {
	struct core *core;
	struct session *first, *last;
	struct loop_timer timer;
};

/* ---- all of it */

/* For the node. */
struct net_access {
	struct core *core; /* borrowed */
	struct egress_links egress;
	struct package_cache cache;
	char *default_policy;	    /* owned: of sessions that do not have one */
	struct policy_memo *merged; /* owned: the last merged policies */
	struct net_usage_due used;
	struct net_batch_due batches;
	struct net_log_listener *listeners;
	struct loop_task notify; /* calls the listeners */
	uint64_t stored;	 /* records, since the start */
};

/* For a session. */
struct net_session {
	struct session_egress egress;
	uint64_t records;	 /* weight of its records. 0: not counted yet */
	uint64_t packages;	 /* rows of its packages. 0: not counted yet */
	unsigned package_alarms; /* events of them, since cordond started */
	struct net_usage used;
	struct net_batch batch;
	struct net_refusals refused;
};

/* net_access.c: the hooks of this folder. */
extern const struct session_part net_access_part;

/* Made with the core. */
static inline struct net_access *net_access_of(const struct core *c)
{
	return *session_parts_of_core(c, &net_access_part);
}

/* Made at the first call. */
static inline struct net_session *net_session_of(const struct session *s)
{
	void **at = session_parts_of(s, &net_access_part);
	struct net_session *n = *at;

	if (n == NULL) {
		*at = n = calloc(1, sizeof(*n));
		assert(n != NULL);
		n->egress.owners = -1;
		memset(n->egress.fds, -1, sizeof(n->egress.fds));
	}
	return n;
}
