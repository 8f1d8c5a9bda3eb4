#include "guest_egress.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "egress_listener.h"
#include "guest_dns.h"
#include "guest_owner.h"
#include "guest_pump.h"

#define CONNECTIONS_MAX 768 /* the rest of the numbers is for programs */
#define ACCEPTS_MAX 16	    /* in one turn */
#define WINDOW (128U << 10)

static const int *listeners; /* NULL: not open */
static unsigned connections;

int guest_egress_open(void)
{
	return egress_listener_open(&listeners);
}

nfds_t guest_egress_poll_fds(struct pollfd *ret_fds, bool accepting)
{
	bool any = listeners != NULL && accepting;

	ret_fds[0] = (struct pollfd){ any && connections < CONNECTIONS_MAX ? listeners[0] : -1,
				      POLLIN, 0 };
	ret_fds[1] = (struct pollfd){ any ? listeners[1] : -1, POLLIN, 0 };
	ret_fds[2] = guest_owner_poll_fd();
	return GUEST_EGRESS_FDS;
}

static void on_end(void)
{
	connections--;
}

static void accept_one(struct mux *m, int fd)
{
	struct mux_open open = { .kind = MUX_TCP, .credit = WINDOW };
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
	    !guest_dns_set_address(&open, (const struct sockaddr *)&at)) {
		fd_close(fd);
		return;
	}
	connections++;
	guest_owner_find(m, fd, &open);
}

void guest_egress_begin(struct mux *m, int fd, const struct mux_open *open)
{
	if (!guest_pump_open(m, open, fd, on_end))
		connections--;
}

void guest_egress_on_ready(struct mux *m, const struct pollfd *fds)
{
	for (unsigned i = 0; fds[0].revents != 0 && i < ACCEPTS_MAX; i++) {
		int fd = connections < CONNECTIONS_MAX
				 ? accept4(fds[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
				 : -1;

		if (fd < 0)
			break;
		accept_one(m, fd);
	}
	if (fds[1].revents != 0)
		guest_dns_on_queries(m, fds[1].fd);
	guest_owner_on_ready(m, fds[2].revents, clock_now_ns());
}
