/* dialer.c - theory of operation
 *
 * The kernel completes or refuses a connection to loopback during connect(2), but a non-blocking
 * call returns EINPROGRESS nearly always. SO_ERROR right after it has the result in most cases. On
 * a busy machine it may not have it yet. Then the receiver of the socket finds the error. */
#include "cell/init/pid1/dialer.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lib/wire/agent_msg.h"

static int dialer_try_connect(const struct sockaddr *to, socklen_t len, int *ret_fd)
{
	OWN_FD fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int late = 0;
	socklen_t late_len = sizeof(late);

	if (fd < 0)
		return errno;
	if (connect(fd, to, len) < 0 && errno != EINPROGRESS)
		return errno;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &late, &late_len) == 0 && late != 0)
		return late;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int dialer_connect(uint16_t port, int *ret_fd)
{
	const struct sockaddr_in v4 = { .sin_family = AF_INET,
					.sin_port = htons(port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
					 .sin6_port = htons(port),
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int sys;

	if (port == AGENT_EGRESS_PORT)
		return ECONNREFUSED;
	sys = dialer_try_connect((const struct sockaddr *)&v4, sizeof(v4), ret_fd);
	if (sys != ECONNREFUSED)
		return sys;
	sys = dialer_try_connect((const struct sockaddr *)&v6, sizeof(v6), ret_fd);
	/* A cell without IPv6. */
	return sys == EAFNOSUPPORT || sys == EADDRNOTAVAIL ? ECONNREFUSED : sys;
}
