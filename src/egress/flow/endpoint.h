/* endpoint.h - the host (a name or an address) and port that a program in a cell wants to reach.
 * Called by flow*.c and gateway*.c. Pure but for the session's table of synthetic names, which it
 * looks addresses up in. */
#pragma once

#include "lib/base/ip.h"
#include "lib/http/http1.h"
#include "lib/policy/host.h"
#include "lib/policy/policy.h"

struct synthetic_names;

struct endpoint {
	char host[HOST_MAX]; /* in its normal form. "": an address */
	struct ip ip;	     /* as the program used it. Not set if by_name */
	bool by_name;	     /* the program sent the name, and used no address */
	uint16_t port;
	bool no_name; /* a synthetic address that stands for no name */
};

/* The endpoint of a connection to this address. */
void endpoint_at(struct synthetic_names *names, const struct ip *ip, uint16_t port,
		 struct endpoint *ret);
/* "name", "name:80", "192.0.2.1:80", "[2001:db8::1]:80", as Host, CONNECT and URLs have it.
 * default_port 0: the text must have one. -1, and why: malformed. */
int endpoint_read(struct synthetic_names *names, struct http1_span host_port, uint16_t default_port,
		  struct endpoint *ret, const char **ret_why) MUST_USE;
/* As the policy functions take it. Borrows host. */
struct policy_target endpoint_target(const struct endpoint *p);
/* "example.com" or "192.0.2.1" or "2001:db8::1". */
void endpoint_name(const struct endpoint *p, char ret[HOST_MAX]);
/* The value of a Host header: with the port unless it is the default of the scheme. */
#define ENDPOINT_HOST_MAX (HOST_MAX + 8)
void endpoint_host(const struct endpoint *p, bool tls, char ret[ENDPOINT_HOST_MAX]);
bool endpoint_same(const struct endpoint *a, const struct endpoint *b);
