/* upstream.h - a connection of the gateway to a server, and its destination. Made by
 * gateway_server.c. Between requests it is kept by idle_conns.c. */
#pragma once

#include "egress/gateway/gateway_stream.h"
#include "lib/base/ip.h"
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
