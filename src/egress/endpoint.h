/* endpoint.h - where a program in a cell wants to go: a name, or an address that stands for itself.
 */
#pragma once

#include "egress_session.h"
#include "host.h"

struct endpoint {
	char host[HOST_MAX]; /* normal; "": the address itself */
	struct ip ip;	     /* as the program used it; if by_name: of no meaning */
	bool by_name;	     /* the name was said, no address was used */
	uint16_t port;
	bool nowhere; /* one of our own addresses that stands for nothing */
};

/* Of a connection to this address. */
void endpoint_at(struct egress_session *g, const struct ip *ip, uint16_t port,
		 struct endpoint *ret);
/* "name", "name:80", "192.0.2.1:80", "[2001:db8::1]:80", as Host, CONNECT and URLs have it.
 * default_port 0: there must be one. -1, and why, if it is none of these. */
int endpoint_read(struct egress_session *g, struct http1_span authority, uint16_t default_port,
		  struct endpoint *ret, const char **ret_why) MUST_USE;
/* As the policy wants to see it; borrows host. */
struct policy_target endpoint_target(const struct endpoint *a);
/* "example.com" or "192.0.2.1" or "2001:db8::1". */
void endpoint_name(const struct endpoint *a, char ret[HOST_MAX]);
/* The value of Host: with the port unless it is the scheme's own. */
#define ENDPOINT_HOST_MAX (HOST_MAX + 8)
void endpoint_host(const struct endpoint *a, bool tls, char ret[ENDPOINT_HOST_MAX]);
bool endpoint_same(const struct endpoint *a, const struct endpoint *b);
