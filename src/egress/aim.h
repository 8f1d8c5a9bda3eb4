/* aim.h - where a program in a cell wants to go: a name, or an address that stands for itself. */
#pragma once

#include "guest.h"
#include "host.h"

struct aim {
	char host[HOST_MAX]; /* normal; "": the address itself */
	struct ip ip;	     /* as the program used it; if by_name: of no meaning */
	bool by_name;	     /* the name was said, no address was used */
	uint16_t port;
	bool nowhere; /* one of our own addresses that stands for nothing */
};

/* Of a connection to this address. */
void aim_at(struct guest *g, const struct ip *ip, uint16_t port, struct aim *ret);
/* "name", "name:80", "192.0.2.1:80", "[2001:db8::1]:80", as Host, CONNECT and URLs have it.
 * default_port 0: there must be one. -1, and why, if it is none of these. */
int aim_read(struct guest *g, struct http1_span authority, uint16_t default_port, struct aim *ret,
	     const char **ret_why) MUST_USE;
/* As the policy wants to see it; borrows host. */
struct policy_target aim_target(const struct aim *a);
/* "example.com" or "192.0.2.1" or "2001:db8::1". */
void aim_name(const struct aim *a, char ret[HOST_MAX]);
/* The value of Host: with the port unless it is the scheme's own. */
#define AIM_HOST_MAX (HOST_MAX + 8)
void aim_host(const struct aim *a, bool tls, char ret[AIM_HOST_MAX]);
bool aim_same(const struct aim *a, const struct aim *b);
