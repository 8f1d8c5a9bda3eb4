/* egress_session.h - the structures of cordon-egress: the process, and one session with its
 * listeners, policy, synthetic names, secrets, connections and counts.
 *
 * The bottom of this folder: every module that works for a session includes it, and it calls none
 * of them. A session is attached, changed and detached by session_control.h only.
 *
 * One process, one thread, one loop. Everything a session can cause is bounded per session, so
 * that no session can take what others need.
 *
 * The files of this folder:
 *
 *  the process
 *   main.c               start; rights given up
 *   ca_create.c          --create-ca: the CA that cells trust
 *   control_channel.c    channel C: what cordond asks for; and the supervisor's socket
 *   control_out.c        channel C: what egress sends, queued
 *   control_channel.c        durations of the loop's turns, for cordond
 *
 *  a session
 *   egress_session.c     the list of sessions
 *   session_control.c    attached, changed, detached; session_control.c reads its configuration
 *   session_limits.c     its limits; limit_usage.c counts, session_counts.c sends the counts
 *   access_record.c      its tries, for the record; masked_text.c masks secrets there
 *   resource_share.c     what sessions and tenants share: descriptors, memory, work of a turn
 *
 *  names
 *   dns.c                the resolver that a cell sees; dns_udp.c, dns_tcp.c, dns_state.c
 *   synthetic_names.c    addresses that stand for names
 *   datagrams.c          datagrams other than queries: counted and recorded
 *
 *  a connection of a cell
 *   flow.c               its stages: flow_accept.c, flow_sniff.c (first bytes), flow_sniff.c
 *                        (CONNECT), then flow_relay.c (unread) or gateway.c (HTTP)
 *   owner_query.c        which program made it
 *   endpoint.c           where it goes; tls_hello.c reads the name in a ClientHello
 *   handshakes.c         TLS handshakes with programs in turns, by fair_queue.c
 *   splice_relay.c       moves bytes between two sockets
 *
 *  requests
 *   gateway*.c           HTTP, request by request: see gateway_base.h
 *   gateway_tap.c        hashes a package file on its way to the cell, and stores it
 *   gateway_file.c       answers with a file of the cache, or with content that the gate makes
 *   cache_link.c         the link to cordon-cache; cache_store.c sends files there
 *   idle_conns.c         a connection to a server, and those kept for the next request
 *   deny_page.c          the answer to a refused or failed request
 *   secrets*.c           placeholders replaced by values, and where: secrets_read.c reads them,
 *                        _placeholder finds, _body replaces in bodies, _known and _sent say which
 *                        servers can know a value, _revoked finds requests that must end with a
 *                        secret
 *   llm_call.c           tokens and models of LLM calls, by llm_call.c and json_scan.c
 *
 *  packages
 *   package_gate*.c      the way of a request for a package: see package_gate_base.h
 *   package_view.c       metadata of registries; package_load.c loads it, by package_fetch.c;
 *                        package_source.c says where it is
 *   package_download.c   requests for one file wait for the first
 *   package_record.c     the record of a request for a package
 *
 * Shared with cordon-pull, in src/lib/outbound:
 *
 *   outbound.c           connects: outbound.c decides about addresses, outbound_socks.c
 *                        speaks to a SOCKS5 proxy
 *   resolver*.c          lookups: resolver.c is the cache, resolver_queue.c the order,
 *                        resolver_query.c one question to name servers, resolver_conf.c reads
 *                        resolv.conf and hosts; dns_msg*.c has the bytes of DNS messages
 *   given_fds.c          reads files passed as descriptors */
#pragma once

#include "egress/control/control_out.h"
#include "egress/control/limit_usage.h"
#include "egress/control/resource_share.h"
#include "egress/flow/owner_link.h"
#include "egress/secrets/secrets_sent.h"
#include "lib/loop/loop.h"
#include "lib/outbound/resolver_lookup.h"
#include "lib/policy/policy.h"
#include "lib/wire/egress_msg.h"

struct resolver;	 /* resolver.h */
struct handshakes;	 /* handshakes.h */
struct leaf_certs;	 /* leaf_certs.h: certificates shown to programs in cells */
struct tls;		 /* tls.h: client side, servers are always verified */
struct synthetic_names;	 /* synthetic_names.h */
struct secrets;		 /* secrets.h */
struct dns_state;	 /* dns_state.h */
struct datagrams;	 /* datagrams.h */
struct flow;		 /* flow.h */
struct idle_conns;	 /* idle_conns.h */
struct cache_link;	 /* cache_link.h */
struct gateway;		 /* gateway_base.h */
struct package_views;	 /* package_view.h */
struct package_download; /* package_download.h */
struct package_apt;	 /* package_apt.h */

struct egress {
	struct loop *loop;
	struct control_out out;
	struct resolver *resolver;
	struct leaf_certs *leaf_certs;
	struct handshakes *handshakes;
	struct tls *server_tls;
	struct egress_session *sessions;
	struct resource_shares shares;
	struct cache_link *cache; /* for cache_link.c */
	/* package_gate.h: begins with a request that the rules allow. main.c sets it, since the
	 * gateway does not know the gate. */
	bool (*package_begin)(struct gateway *x);
	bool (*package_refused)(struct gateway *x, const char *reason);
	bool (*package_stays)(struct gateway *x);
	struct package_views *package_views;	    /* owned. NULL until the first */
	struct package_download *package_downloads; /* package_download.h */
	struct package_apt *package_apt;	    /* owned. package_apt.h */
};

/* Connections of a session at a time, whatever its policy says: one may cost 350 KiB of buffers. */
#define EGRESS_SESSION_FLOWS_MAX 256

struct egress_session_counts {
	uint64_t bytes_in, bytes_out, requests, connections;
};

/* Its use of its package limits. Counted by package_gate*.c. */
struct package_used {
	uint64_t bytes;	    /* of package files sent to the cell, from the cache, too */
	uint64_t new_names; /* names that no registry knew */
};

struct egress_session {
	struct egress_session *next;
	struct egress *egress;
	char id[EGRESS_ID_MAX];
	bool attached; /* over the current channel, not only over an earlier one */

	/* Its configuration (session_control.h). */
	struct policy *policy;	 /* owned. Replaced as a whole */
	uint64_t version;	 /* of the policy: incremented with every change */
	struct secrets *secrets; /* owned. Never NULL */

	/* Its listeners. Owned, and untrusted: PID 1 of the cell holds them, too. -1: none. */
	int tcp, udp;
	struct loop_fd tcp_watch, udp_watch;
	struct owner_link owners;	/* owner_query.h */
	struct loop_timer accept_again; /* set while there are no descriptors to accept with */

	/* Its state, each part with the module that works on it. */
	struct synthetic_names *names; /* owned */
	struct dns_state *dns;	       /* owned. NULL until the first query */
	struct datagrams *datagrams;   /* owned. NULL until the first */
	struct idle_conns *idle_conns; /* owned */
	struct flow *flows;	       /* flow.h */
	unsigned nflows;	       /* flow.h */
	uint64_t rejected_ns;	       /* flow_accept.c: when a rejected one was last recorded */
	struct secrets_sent sent;      /* where its secrets went */
	struct resource_share share;   /* its part of what sessions share */
	struct resolver_owner lookups; /* resolver.h */
	struct fair_queue_session handshakes; /* handshakes.h */
	uint64_t names_full_ns;	       /* handshakes.c: when the bucket of names is full again */
	struct limit_usage_table used; /* session_limits.h */
	struct egress_session_counts counts;	  /* session_counts.h */
	struct egress_session_counts counts_sent; /* as in the last EGRESS_COUNTS */
	struct control_out_share queued;	  /* access_record.c: its records */
	uint64_t records_lost;			  /* access_record.c: since the last one sent */
	bool leaving;				  /* is being detached: nothing is begun for it */
	unsigned package_leads;			  /* package_download.c */
	unsigned package_fetches;		  /* package_load.c: in progress */
	struct package_zip *package_zips;	  /* package_gate_sums.c: those of its requests */
	struct package_used packages;
	uint64_t masked; /* values of secrets masked in its answers */
};

/* NULL: no such session. */
struct egress_session *egress_session_find(struct egress *egress, const char *id);
/* Zeroed but for its id and descriptors of -1, and in the list. NULL: out of memory. */
struct egress_session *egress_session_new(struct egress *egress, const char *id);
/* Out of the list, and freed. Its parts were released before by the code that made them. */
void egress_session_free(struct egress_session *session);
