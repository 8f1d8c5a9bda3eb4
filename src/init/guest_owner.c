#include "guest_owner.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "guest_dns.h"
#include "guest_egress.h"
#include "io.h"
#include "owner_finder.h"
#include "owner_msg.h"

#define WAITING_MAX 64 /* more connections go on without a mark */
#define WAIT_MS 250

struct waiting {
	int fd; /* owned; valid while used */
	bool used;
	uint64_t id, end_ns;
	struct mux_open open;
};

static struct waiting table[WAITING_MAX];
static unsigned nwaiting;
static int sock = -1; /* to the process that answers */
static uint64_t last_id;

/* A pair whose other end belongs to owner_finder.c. It closes that one if it fails. */
static bool begin(void)
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

static void set_ip(uint8_t ret[16], const struct mux_open *o)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (o->family == 6) {
		memcpy(ret, o->address, 16);
		return;
	}
	memcpy(ret, mapped, sizeof(mapped));
	memcpy(ret + sizeof(mapped), o->address, 4);
}

static bool ask(int fd, uint64_t id, const struct mux_open *to)
{
	struct owner_question q = { .id = id, .to_port = to->port };
	struct mux_open from = { 0 };
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0 ||
	    !guest_dns_set_address(&from, (const struct sockaddr *)&peer) || !begin())
		return false;
	q.from_port = from.port;
	set_ip(q.from, &from);
	set_ip(q.to, to);
	return send(sock, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(q);
}

void guest_owner_find(struct mux *m, int fd, const struct mux_open *open)
{
	for (size_t i = 0; i < WAITING_MAX && nwaiting < WAITING_MAX; i++) {
		if (table[i].used)
			continue;
		if (!ask(fd, ++last_id, open))
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

static void go_on(struct mux *m, struct waiting *w, uint64_t mark)
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
			go_on(m, &table[i], a->result == OWNER_FOUND ? a->mark : 0);
}

struct pollfd guest_owner_poll_fd(void)
{
	return (struct pollfd){ nwaiting > 0 ? sock : -1, POLLIN, 0 };
}

void guest_owner_on_ready(struct mux *m, short revents, uint64_t now_ns)
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
			go_on(m, &table[i], 0);
}

uint64_t guest_owner_wake_ns(void)
{
	uint64_t end = 0;

	for (size_t i = 0; i < WAITING_MAX && nwaiting > 0; i++)
		if (table[i].used && (end == 0 || table[i].end_ns < end))
			end = table[i].end_ns;
	return end;
}
