/* idle_conns.h - idle connections of one session to servers, kept for its next requests. Called by
 * gateway_server.c, gateway_end.c, and session_control.c when the policy changes. Never shared
 * with another session: an answer to a request of one session must not reach another. */
#pragma once

#include "egress/control/resource_share.h"
#include "egress/gateway/gateway_stream.h"
#include "lib/base/ip.h"
#include "lib/loop/loop.h"
#include "lib/policy/host.h"

struct idle_conns;

/* The destination of a connection. It is used again only if all members are equal. */
struct upstream_key {
	bool tls;
	bool by_ip; /* made to this address, as the cell asked for it, not to a name */
	struct ip ip;
	uint16_t port;
	char host[HOST_MAX]; /* the name, which its certificate was verified for. "": none */
};

struct upstream {
	struct upstream_key key;
	struct gateway_stream stream;
	struct ip at; /* the address it is connected to */
	/* requests so far. Above 0, its end may just be the server's idle timeout */
	unsigned served;
	uint64_t idle_ns; /* idle since then */
	/* Private to idle_conns.c, while it is idle: */
	struct idle_conns *pool;
	struct upstream *prev, *next;
};

/* A new connection. The descriptor is taken over in any case. NULL: out of memory. */
struct upstream *upstream_new(struct loop *l, const struct upstream_key *key, int fd,
			      const struct ip *at, struct err *e) MUST_USE;
void upstream_free(struct upstream *up);

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
