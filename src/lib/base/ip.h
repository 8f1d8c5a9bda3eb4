/* ip.h - IP addresses, blocks, and their kinds (private, metadata, ...). Pure.
 *
 * One representation for both families: IPv4 is ::ffff:a.b.c.d. Parsing is strict: spellings that
 * other parsers may read as another address (octal, hex, short forms, zones) are refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/own.h"

#define IP_TEXT_MAX 48

struct ip {
	uint8_t b[16];
};

struct ip_net {
	struct ip ip;  /* bits behind the prefix are zero */
	unsigned bits; /* of 128: an IPv4 /8 is 104 */
};

enum ip_kind {
	IP_PUBLIC,
	IP_UNSPECIFIED, /* 0.0.0.0/8, :: */
	IP_LOOPBACK,
	IP_PRIVATE,    /* RFC 1918, fc00::/7, site-local */
	IP_LINK_LOCAL, /* 169.254/16, fe80::/10 */
	IP_METADATA,   /* cloud metadata services, wherever they are */
	IP_CGNAT,      /* 100.64/10 */
	IP_MULTICAST,  /* and broadcast */
	IP_RESERVED, /* documentation, benchmarks, future use, tunnels that hide an IPv4 address */
	IP_KINDS
};

/* "192.0.2.1" or "2001:db8::1": n bytes, all of them. -1 otherwise. */
int ip_read(const char *text, size_t n, struct ip *ret) MUST_USE;
/* "192.0.2.0/24", "2001:db8::/32", or an address alone. -1 if bits behind the prefix are set. */
int ip_net_read(const char *text, size_t n, struct ip_net *ret) MUST_USE;
void ip_format(const struct ip *ip, char ret[IP_TEXT_MAX]);
bool ip_is_v4(const struct ip *ip);
bool ip_same(const struct ip *a, const struct ip *b);
bool ip_net_holds(const struct ip_net *net, const struct ip *ip);

/* An IPv4 address hidden in an IPv6 one (mapped, compatible, NAT64, 6to4) has the kind of the IPv4
 * address, unless it is public and such forms have no public use: IP_RESERVED. */
enum ip_kind ip_kind(const struct ip *ip);
/* The IPv4 address that a gateway of the network (NAT64) connects to for this one. false: none. */
bool ip_behind(const struct ip *ip, struct ip *ret);
const char *ip_kind_name(enum ip_kind kind); /* "private", "metadata", ... */

/* AF_INET and AF_INET6. -1: neither. */
int ip_of_sockaddr(const struct sockaddr *at, struct ip *ret, uint16_t *ret_port) MUST_USE;
/* An AF_INET address for IPv4. Return its length. */
socklen_t ip_to_sockaddr(const struct ip *ip, uint16_t port, struct sockaddr_storage *ret);
