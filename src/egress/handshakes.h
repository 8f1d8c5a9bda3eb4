/* handshakes.h - TLS handshakes with programs in cells, in turns.
 *
 * A handshake costs a key operation, and for a new name a certificate, and a program pays nothing
 * for one that it never finishes. So each waits here for its turn: a few in a turn of the loop, of
 * one session at most two, tenants and sessions one after the other (fair.h). Certificates for
 * names that have none in the cache have a rate for each session. */
#pragma once

#include "egress_session.h"

struct flow;
struct handshakes;

/* Lives as long as the process. NULL: memory is short. */
struct handshakes *handshakes_new(struct egress *e);
/* flow_handshake() is called for it by the loop when it is its turn. */
void handshakes_wait(struct flow *f);
/* It waits no more, if it did. */
void handshakes_drop(struct flow *f);
