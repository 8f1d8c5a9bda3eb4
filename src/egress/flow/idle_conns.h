/* idle_conns.h - idle connections of one session to servers, kept for its next requests. Called by
 * gateway_server.c, gateway_end.c, and session_control.c when the policy changes. Never shared
 * with another session: an answer to a request of one session must not reach another. */
#pragma once

#include "egress/control/resource_share.h"
#include "egress/flow/upstream.h"
#include "lib/loop/loop.h"

#define IDLE_CONNS_MAX 64 /* then the one idle for longest is closed */
#define IDLE_CONNS_IDLE_MS 30000

struct idle_conns;

/* share: the session's, borrowed. It counts each connection kept. NULL: out of memory. */
struct idle_conns *idle_conns_new(struct loop *l, struct resource_share *share);
void idle_conns_free(struct idle_conns *u);
/* Return an idle connection with this key, the last used first, or NULL. The caller owns it. Its
 * stream reports no events until gateway_stream_watch(). young_ns: not if it is idle for longer
 * than that (0: any). */
struct upstream *idle_conns_take(struct idle_conns *u, const struct upstream_key *key,
				 uint64_t young_ns);
/* Take it over, and keep it, or close it if there are bytes left to be read or written. */
void idle_conns_keep(struct idle_conns *u, struct upstream *up);
/* Close all: by a new policy, other servers may be reached. */
void idle_conns_empty(struct idle_conns *u);
