/* hop.h - which headers belong to one connection only, and are never passed on. Pure. Used by both
 * proxies, src/lib/net and src/egress, so that they cannot differ.
 *
 * RFC 9110, 7.6.1: Connection and all headers that it names, Keep-Alive, Proxy-*, TE, Trailer,
 * Transfer-Encoding, Upgrade, HTTP2-Settings. Content-Length is among them, too: a proxy writes the
 * framing of its own messages. */
#pragma once

#include "lib/http/http1.h"

/* Bytes of a message's Connection headers. The list is searched for every other header: one of
 * 28,000 names took 30 ms. The names of a longer list are ignored. */
#define HOP_CONNECTION_MAX 1024

struct hop {
	const struct http1_header *at;
	size_t n;
	bool connection; /* there is a Connection header that may name others */
};

/* Borrows the headers. */
struct hop hop_of(const struct http1_header *headers, size_t n);
/* Is it about one connection: by its own name, or because Connection names it? */
bool hop_is(const struct hop *h, struct http1_span name);
