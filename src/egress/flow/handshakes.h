/* handshakes.h - TLS handshakes with programs in cells, in turns. Called by flow_sniff.c.
 *
 * A handshake costs a key operation, and for a new name a certificate. It costs a program nothing
 * to begin one and never finish it. So each waits here for its turn: TURN_MAX in a turn of the
 * loop, two of one session at most, tenants and sessions one after the other (fair_queue.h).
 * Certificates for names outside the cache have a rate for each session. */
#pragma once

#include "egress/control/egress_session.h"
#include "lib/policy/host.h"

struct handshakes;

/* A handshake that waits. Embedded in the connection it is for. Starts zeroed. */
struct handshake {
	struct fair_queue_item item; /* private */
	struct egress_session *session;
	/* Called when it is the turn of this handshake: it is not queued any more, and may be
	 * freed. */
	void (*on_turn)(struct handshake *h);
	/* The name its certificate is for: in ret, or in memory that outlives the call. */
	const char *(*name)(const struct handshake *h, char ret[HOST_MAX]);
};

/* Lives as long as the process. NULL: out of memory. */
struct handshakes *handshakes_new(struct egress *e);
/* h->on_turn() is called by the loop, later. session, on_turn and name are set by the caller. */
void handshakes_wait(struct handshake *h);
bool handshakes_waits(const struct handshake *h);
/* Take the handshake out of the queue. No effect if it is not queued. */
void handshakes_drop(struct handshake *h);
