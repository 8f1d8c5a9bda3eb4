#include "lib/base/ip.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define V4_BITS 96 /* in front of an IPv4 address */

static const uint8_t v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* Blocks outside public use. Narrower blocks before wider ones. */
static const struct {
	const char *net;
	enum ip_kind kind;
} blocks[] = {
	/* Where clouds put their metadata services. The first is link-local, too. */
	{ "169.254.169.254/32", IP_METADATA },
	{ "169.254.170.2/32", IP_METADATA },
	{ "169.254.170.23/32", IP_METADATA },
	{ "100.100.100.200/32", IP_METADATA },
	{ "168.63.129.16/32", IP_METADATA },
	{ "192.0.0.192/32", IP_METADATA },
	{ "fd00:ec2::254/128", IP_METADATA },
	{ "fd00:ec2::23/128", IP_METADATA },
	{ "fd20:ce::254/128", IP_METADATA },
	{ "0.0.0.0/8", IP_UNSPECIFIED },
	{ "10.0.0.0/8", IP_PRIVATE },
	{ "100.64.0.0/10", IP_CGNAT },
	{ "127.0.0.0/8", IP_LOOPBACK },
	{ "169.254.0.0/16", IP_LINK_LOCAL },
	{ "172.16.0.0/12", IP_PRIVATE },
	{ "192.0.0.0/24", IP_RESERVED },
	{ "192.0.2.0/24", IP_RESERVED },
	{ "192.88.99.0/24", IP_RESERVED },
	{ "192.168.0.0/16", IP_PRIVATE },
	{ "198.18.0.0/15", IP_RESERVED },
	{ "198.51.100.0/24", IP_RESERVED },
	{ "203.0.113.0/24", IP_RESERVED },
	{ "224.0.0.0/4", IP_MULTICAST },
	{ "255.255.255.255/32", IP_MULTICAST },
	{ "240.0.0.0/4", IP_RESERVED },
	{ "::1/128", IP_LOOPBACK },
	{ "::/128", IP_UNSPECIFIED },
	{ "fe80::/10", IP_LINK_LOCAL },
	{ "fec0::/10", IP_PRIVATE },
	{ "fc00::/7", IP_PRIVATE },
	{ "ff00::/8", IP_MULTICAST },
	{ "2001:db8::/32", IP_RESERVED },
	{ "3fff::/20", IP_RESERVED },
	{ "2001::/23", IP_RESERVED }, /* Teredo, ORCHID, benchmarks */
	{ "100::/64", IP_RESERVED },
	{ "5f00::/16", IP_RESERVED },
};

/* IPv6 addresses that hold an IPv4 one, and at which byte. */
static const struct {
	const char *net;
	size_t at;
	bool needed; /* public hosts are reached by this form in some networks */
} holders[] = {
	{ "64:ff9b::/96", 12, true }, { "64:ff9b:1::/48", 12, false },	{ "2002::/16", 2, false },
	{ "::/96", 12, false },	      { "::ffff:0:0:0/96", 12, false },
};

bool ip_is_v4(const struct ip *ip)
{
	return memcmp(ip->b, v4_prefix, sizeof(v4_prefix)) == 0;
}

bool ip_same(const struct ip *a, const struct ip *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

int ip_read(const char *text, size_t n, struct ip *ret)
{
	char copy[IP_TEXT_MAX];

	if (n == 0 || n >= sizeof(copy) || memchr(text, '\0', n) != NULL)
		return -1;
	memcpy(copy, text, n);
	copy[n] = '\0';
	memcpy(ret->b, v4_prefix, sizeof(v4_prefix));
	/* inet_pton(3) knows dotted decimal only, without zeros in front (glibc, musl). */
	if (inet_pton(AF_INET, copy, ret->b + sizeof(v4_prefix)) == 1)
		return copy[0] == '0' && copy[1] != '.' ? -1 : 0;
	return inet_pton(AF_INET6, copy, ret->b) == 1 ? 0 : -1;
}

/* Are all bits behind the prefix zero? */
static bool ip_is_clean(const struct ip_net *net)
{
	for (unsigned i = net->bits; i < 128; i++)
		if ((net->ip.b[i / 8] & (0x80U >> (i % 8))) != 0)
			return false;
	return true;
}

int ip_net_read(const char *text, size_t n, struct ip_net *ret)
{
	const char *slash = memchr(text, '/', n);
	size_t digits = slash == NULL ? 0 : n - (size_t)(slash - text) - 1;
	unsigned bits = 0, most;

	if (ip_read(text, slash == NULL ? n : (size_t)(slash - text), &ret->ip) < 0)
		return -1;
	most = ip_is_v4(&ret->ip) && memchr(text, ':', n) == NULL ? 32 : 128;
	if (slash == NULL) {
		ret->bits = 128;
		return 0;
	}
	if (digits < 1 || digits > 3 || (digits > 1 && slash[1] == '0'))
		return -1;
	for (size_t i = 1; i <= digits; i++) {
		if (slash[i] < '0' || slash[i] > '9')
			return -1;
		bits = bits * 10 + (unsigned)(slash[i] - '0');
	}
	if (bits > most)
		return -1;
	ret->bits = most == 32 ? V4_BITS + bits : bits;
	return ip_is_clean(ret) ? 0 : -1;
}

void ip_format(const struct ip *ip, char ret[IP_TEXT_MAX])
{
	const void *at = ip_is_v4(ip) ? ip->b + sizeof(v4_prefix) : ip->b;

	if (inet_ntop(ip_is_v4(ip) ? AF_INET : AF_INET6, at, ret, IP_TEXT_MAX) == NULL)
		ret[0] = '\0';
}

bool ip_net_holds(const struct ip_net *net, const struct ip *ip)
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;
	uint8_t last = (uint8_t)(0xff00U >> rest);

	if (memcmp(net->ip.b, ip->b, whole) != 0)
		return false;
	return rest == 0 || (net->ip.b[whole] & last) == (ip->b[whole] & last);
}

/* The tables above are constant: an entry that does not parse is a bug. */
static bool ip_holds(const char *net, const struct ip *ip)
{
	struct ip_net n;
	int read = ip_net_read(net, strlen(net), &n);

	assert(read == 0);
	return ip_net_holds(&n, ip);
}

static enum ip_kind ip_plain_kind(const struct ip *ip)
{
	for (size_t i = 0; i < COUNT(blocks); i++)
		if (ip_holds(blocks[i].net, ip))
			return blocks[i].kind;
	return IP_PUBLIC;
}

static void ip_take_inner(const struct ip *ip, size_t at, struct ip *ret)
{
	memcpy(ret->b, v4_prefix, sizeof(v4_prefix));
	memcpy(ret->b + sizeof(v4_prefix), ip->b + at, 4);
}

bool ip_behind(const struct ip *ip, struct ip *ret)
{
	static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };

	if (memcmp(ip->b, nat64, sizeof(nat64)) != 0)
		return false;
	ip_take_inner(ip, sizeof(nat64), ret);
	return true;
}

enum ip_kind ip_kind(const struct ip *ip)
{
	enum ip_kind kind = ip_plain_kind(ip);
	struct ip inner;

	if (kind != IP_PUBLIC || ip_is_v4(ip))
		return kind;
	for (size_t i = 0; i < COUNT(holders); i++) {
		if (!ip_holds(holders[i].net, ip))
			continue;
		ip_take_inner(ip, holders[i].at, &inner);
		kind = ip_plain_kind(&inner);
		return kind == IP_PUBLIC && !holders[i].needed ? IP_RESERVED : kind;
	}
	return IP_PUBLIC;
}

const char *ip_kind_name(enum ip_kind kind)
{
	static const char *const names[] = {
		[IP_PUBLIC] = "public",		  [IP_UNSPECIFIED] = "unspecified",
		[IP_LOOPBACK] = "loopback",	  [IP_PRIVATE] = "private",
		[IP_LINK_LOCAL] = "link-local",	  [IP_METADATA] = "metadata",
		[IP_CGNAT] = "carrier-grade NAT", [IP_MULTICAST] = "multicast",
		[IP_RESERVED] = "reserved",
	};

	static_assert(COUNT(names) == IP_KINDS, "every kind has a name");
	return names[kind];
}

int ip_of_sockaddr(const struct sockaddr *at, struct ip *ret, uint16_t *ret_port)
{
	if (at->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)at;

		memcpy(ret->b, v4_prefix, sizeof(v4_prefix));
		memcpy(ret->b + sizeof(v4_prefix), &v4->sin_addr, 4);
		*ret_port = ntohs(v4->sin_port);
		return 0;
	}
	if (at->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at;

		memcpy(ret->b, &v6->sin6_addr, sizeof(ret->b));
		*ret_port = ntohs(v6->sin6_port);
		return 0;
	}
	return -1;
}

socklen_t ip_to_sockaddr(const struct ip *ip, uint16_t port, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (ip_is_v4(ip)) {
		struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };

		memcpy(&v4.sin_addr, ip->b + sizeof(v4_prefix), 4);
		memcpy(ret, &v4, sizeof(v4));
		return sizeof(v4);
	}
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memcpy(&v6.sin6_addr, ip->b, sizeof(ip->b));
	memcpy(ret, &v6, sizeof(v6));
	return sizeof(v6);
}
