/* dns_state.h - the memory of one session's resolver: pacing, recent questions, connections. For
 * dns.c, dns_udp.c and dns_tcp.c. */
#pragma once

#include "egress/control/egress_session.h"

#define DNS_STATE_RECENT 64

struct dns_conn; /* dns_tcp.c */

struct dns_state {
	struct egress_session *session;
	uint64_t paced_ns; /* advanced by every answer. How far it may be ahead is the burst */
	uint64_t flood_ns; /* when "too many queries" was last recorded. 0: never */
	struct {
		uint64_t hash, at_ns;
	} recent[DNS_STATE_RECENT]; /* questions recorded lately, by hash */
	struct dns_conn *conns;
	unsigned nconns;
	unsigned idle_wakes; /* of the UDP socket with nothing to read, in a row */
	struct loop_timer pause;
};

/* Made at the first call. NULL: out of memory. */
struct dns_state *dns_state_of(struct egress_session *session);
/* After dns_tcp_cut_all(). No effect if there is none. */
void dns_state_free(struct egress_session *session);
