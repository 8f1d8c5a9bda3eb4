/* egress_session.h - one session, as cordon-egress sees it: its door, its policy, its names, its
 * secrets, and what it has under way. And egress itself, which has all of them.
 *
 * One process, one thread, one loop. Everything a session can cause is bounded per session, so that
 * none can take what the others need. */
#pragma once

#include "egress_msg.h"
#include "loop.h"
#include "policy.h"
#include "sent.h"
#include "share.h"
#include "used.h"

struct control_channel; /* control_channel.h: to cordond */
struct resolver;	/* resolver.h */
struct handshakes;	/* handshakes.h: whose is next */
struct leaf_certs;	/* leaf_certs.h: certificates for cells */
struct tls;		/* tls.h: upstream, always verified */
struct synthetic_names; /* synthetic_names.h */
struct secrets;		/* secrets.h */
struct dns_state;	/* dns_state.h */
struct flow;		/* flow.h */
struct idle_conns;	/* idle_conns.h: idle connections to servers */

struct egress {
	struct loop *loop;
	struct control_channel *channel;
	struct resolver *resolver;
	struct leaf_certs *mint;
	struct handshakes *handshakes;
	struct tls *upstream;
	struct egress_session *sessions;
	unsigned nsessions;
	struct share *shares;  /* of the tenants that have sessions */
	unsigned fds, fds_max; /* descriptors of sessions' connections, and how many there may be */
};

/* Connections at a time, whatever the policy says: one may cost 350 KiB of buffers. */
#define EGRESS_SESSION_FLOWS_MAX 256

struct egress_session_counts {
	uint64_t bytes_in, bytes_out, requests, connections;
};

struct egress_session {
	struct egress_session *next;
	struct egress *egress;
	struct share *share; /* of its tenant; never NULL */
	char id[EGRESS_ID_MAX];
	struct policy *policy;	       /* owned; replaced as a whole */
	uint64_t version;	       /* of the policy: counts up with every change */
	struct secrets *secrets;       /* owned; never NULL */
	struct sent sent;	       /* where they went */
	struct synthetic_names *names; /* owned */
	struct dns_state *dns;	      /* NULL at first; made by dns.c, freed by dns_tcp_cut_all() */
	struct idle_conns *upstreams; /* owned */
	int tcp, udp;		      /* owned; foreign: PID 1 of the cell holds them, too */
	struct loop_fd on_tcp, on_udp;
	struct loop_timer again; /* while there are no descriptors to accept with */
	struct flow *flows;
	unsigned nflows;
	unsigned fds;  /* share.h */
	size_t memory; /* of its requests under way */
	struct share_turn turn;
	struct fair_group shakes; /* handshakes.h */
	uint64_t names_full_ns;
	struct resolver_owner lookups;		   /* resolver.h */
	uint64_t turned_away_ns;		   /* flow.c: when that was last recorded */
	struct egress_session_counts counts, told; /* told: by the last EGRESS_COUNTS */
	struct used_table used;			   /* owned: session_limits.h */
	bool here;				   /* attached since the channel is new */
	uint64_t records_lost;
	uint64_t covered; /* values of secrets in its answers so far */
	size_t waiting;	  /* bytes of its records since the channel had none waiting, */
	uint64_t emptied; /* which was for the so many-th time */
};

struct egress_session *egress_session_find(struct egress *g, const char *id);
/* Takes both descriptors, checks that they are what they should be. A session that is here already
 * gets the new order and the new descriptors. On failure nothing of it is left. */
int egress_session_attach(struct egress *egress, const char *id, int fds[2], const char *order,
			  size_t len, struct err *e) MUST_USE;
/* All or nothing: on failure the session goes on as before (the caller detaches it). */
int egress_session_change(struct egress_session *g, const char *order, size_t len,
			  struct err *e) MUST_USE;
void egress_session_detach(struct egress_session *g);
