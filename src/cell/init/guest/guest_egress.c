#include "cell/init/guest/guest_egress.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "cell/init/guest/guest_dns.h"
#include "cell/init/guest/guest_pump.h"
#include "cell/init/pid1/egress_listener.h"
#include "cell/init/pid1/owner_finder.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/wire/mux.h"
#include "lib/wire/owner_msg.h"

#define CONNECTIONS_MAX 768 /* the rest of the numbers is for programs */
#define ACCEPTS_MAX 16	    /* in one turn */
#define WINDOW (128U << 10)

/* Finds the program of a virtual machine that made a connection. The shim answers that for
 * cordon-egress, and knows it from OPEN. So it is asked before OPEN, of the process that answers it
 * in cells (owner_finder.h). A connection waits for the answer, but not long. Called by
 * guest_egress.c. */

#define WAITING_MAX 64 /* more connections continue without a mark */
#define WAIT_MS 250

struct waiting {
	int fd; /* owned, valid while used */
	bool used;
	uint64_t id, end_ns;
	struct mux_open open;
};

static struct waiting table[WAITING_MAX];
static unsigned nwaiting;
static int sock = -1; /* to the process that answers */
static uint64_t last_id;

/* A pair whose other end belongs to owner_finder.c. It closes that one if it fails. */
static bool guest_egress_owner_begin(void)
{
	int pair[2];

	if (sock >= 0)
		return true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return false;
	sock = pair[0];
	owner_finder_listen(pair[1]);
	return true;
}

static void guest_egress_owner_set_ip(uint8_t ret[16], const struct mux_open *o)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (o->family == 6) {
		memcpy(ret, o->address, 16);
		return;
	}
	memcpy(ret, mapped, sizeof(mapped));
	memcpy(ret + sizeof(mapped), o->address, 4);
}

static bool guest_egress_owner_ask(int fd, uint64_t id, const struct mux_open *to)
{
	struct owner_question q = { .id = id, .to_port = to->port };
	struct mux_open from = { 0 };
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0 ||
	    !guest_dns_set_address(&from, (const struct sockaddr *)&peer) ||
	    !guest_egress_owner_begin())
		return false;
	q.from_port = from.port;
	guest_egress_owner_set_ip(q.from, &from);
	guest_egress_owner_set_ip(q.to, to);
	return send(sock, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(q);
}

/* Take fd over: an accepted connection, and the OPEN for it. When the mark is known, or cannot be
 * known in time, guest_egress_begin() is called with both. */
static void guest_egress_owner_find(struct mux *m, int fd, const struct mux_open *open)
{
	for (size_t i = 0; i < WAITING_MAX && nwaiting < WAITING_MAX; i++) {
		if (table[i].used)
			continue;
		if (!guest_egress_owner_ask(fd, ++last_id, open))
			break;
		table[i] = (struct waiting){ .fd = fd,
					     .used = true,
					     .id = last_id,
					     .end_ns = clock_now_ns() + WAIT_MS * CLOCK_MS,
					     .open = *open };
		nwaiting++;
		return;
	}
	guest_egress_begin(m, fd, open);
}

static void guest_egress_owner_go_on(struct mux *m, struct waiting *w, uint64_t mark)
{
	w->used = false;
	nwaiting--;
	w->open.mark = mark;
	guest_egress_begin(m, TAKE_FD(w->fd), &w->open);
}

static void on_answer(struct mux *m, const struct owner_answer *a)
{
	for (size_t i = 0; i < WAITING_MAX; i++)
		if (table[i].used && table[i].id == a->id)
			guest_egress_owner_go_on(m, &table[i],
						 a->result == OWNER_FOUND ? a->mark : 0);
}

/* One entry for poll(2). */
static struct pollfd guest_egress_owner_poll_fd(void)
{
	return (struct pollfd){ nwaiting > 0 ? sock : -1, POLLIN, 0 };
}

/* After each poll(2): answers, and those that did not come. */
static void guest_egress_owner_on_ready(struct mux *m, short revents, uint64_t now_ns)
{
	uint8_t bytes[sizeof(struct owner_answer) + 1];
	struct owner_answer a;
	struct err e;
	ssize_t n = 0;

	while (revents != 0 && (n = recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		if (owner_answer_read(bytes, (size_t)n, &a, &e) == 0)
			on_answer(m, &a);
	if (revents != 0 && n == 0)
		io_close_all(&sock, 1); /* the next question makes another pair */
	for (size_t i = 0; i < WAITING_MAX && nwaiting > 0; i++)
		if (table[i].used && (table[i].end_ns <= now_ns || sock < 0))
			guest_egress_owner_go_on(m, &table[i], 0);
}

uint64_t guest_egress_owner_wake_ns(void)
{
	uint64_t end = 0;

	for (size_t i = 0; i < WAITING_MAX && nwaiting > 0; i++)
		if (table[i].used && (end == 0 || table[i].end_ns < end))
			end = table[i].end_ns;
	return end;
}

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
	ret_fds[2] = guest_egress_owner_poll_fd();
	return GUEST_EGRESS_FDS;
}

static void on_end(void)
{
	connections--;
}

static void guest_egress_accept_one(struct mux *m, int fd)
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
	guest_egress_owner_find(m, fd, &open);
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
		guest_egress_accept_one(m, fd);
	}
	if (fds[1].revents != 0)
		guest_dns_on_queries(m, fds[1].fd);
	guest_egress_owner_on_ready(m, fds[2].revents, clock_now_ns());
}
