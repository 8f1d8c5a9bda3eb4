/* egress_listener.c - theory of operation
 *
 * The keeper's packet rules redirect every TCP connection to another address than loopback to the
 * transparent socket that listens at port 1. Only the keeper could set that option. It left the
 * socket at INIT_FD_EGRESS, not bound. While it does not listen, the kernel refuses the
 * connections. DNS queries go to port 53 of any address, as all addresses are local. That needs no
 * rule, and a program of the cell that binds 127.0.0.1:53 gets the queries to that address.
 *
 * Both sockets stay open here: if cordon-egress dies, the next one gets the same. */
#include "cell/init/pid1/egress_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "lib/wire/keeper_msg.h"

#define TCP_PORT 1 /* as in tools/gen-cell-network */
#define DNS_PORT 53
#define BACKLOG 1024

static int fds[EGRESS_LISTENER_FDS] = { -1, -1 };

static int egress_set(int fd, int level, int option)
{
	return setsockopt(fd, level, option, &(int){ 1 }, sizeof(int));
}

/* Bind to every address of both families, or of IPv4 if the kernel has no IPv6. */
static int egress_bind_any(int fd, int family, uint16_t port)
{
	const struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	/* So that programs can bind the port at one address, too. */
	if (egress_set(fd, SOL_SOCKET, SO_REUSEADDR) < 0)
		return -1;
	if (family == AF_INET)
		return bind(fd, (const struct sockaddr *)&v4, sizeof(v4));
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int)) < 0)
		return -1;
	return bind(fd, (const struct sockaddr *)&v6, sizeof(v6));
}

static int egress_family_of(int fd)
{
	int family = -1;
	socklen_t len = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0 ? -1 : family;
}

/* A socket stays bound if the call failed later. It is repeated then. */
static bool egress_is_bound(int fd)
{
	struct sockaddr_in6 at = { 0 };
	socklen_t len = sizeof(at);

	return getsockname(fd, (struct sockaddr *)&at, &len) == 0 && at.sin6_port != 0;
}

static int egress_listen_tcp(int fd, int family)
{
	if (!egress_is_bound(fd) && egress_bind_any(fd, family, TCP_PORT) < 0)
		return -1;
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return -1;
	return listen(fd, BACKLOG);
}

static int egress_make_udp(int family, int *ret_fd)
{
	OWN_FD fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* cordon-egress must know to which address a query was sent, and answer from it.
	 * IP_FREEBIND: that address is routed, but not assigned to a device. */
	if (fd < 0 || egress_bind_any(fd, family, DNS_PORT) < 0 ||
	    egress_set(fd, SOL_IP, IP_PKTINFO) < 0 || egress_set(fd, SOL_IP, IP_FREEBIND) < 0 ||
	    (family == AF_INET6 && egress_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO) < 0))
		return -1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int egress_listener_open(const int **ret_fds)
{
	int family;

	if (fds[0] < 0) {
		family = egress_family_of(INIT_FD_EGRESS);
		if (family < 0)
			return EOPNOTSUPP;
		if (fds[1] < 0 && egress_make_udp(family, &fds[1]) < 0)
			return errno;
		if (egress_listen_tcp(INIT_FD_EGRESS, family) < 0)
			return errno;
		fds[0] = INIT_FD_EGRESS;
	}
	*ret_fds = fds;
	return 0;
}
