/* dns_ask.c - theory of operation
 *
 * The stream is joined to one end of a socket pair. From the other end the query is read, two bytes
 * of length first, and sent as a datagram. The answer is written to it, nothing else. Both are
 * bounded, and the whole has ten seconds.
 *
 * With another port than 53 it is no query: the guest's kernel refused a datagram to that place,
 * and the guest tells its length. One of the same length is sent in the cell. The kernel refuses
 * it, too, and cordon-egress gets a copy for the record, as of any datagram of a cell. */
#include "cell/shim/dns_ask.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "cell/shim/carrier.h"
#include "cell/shim/shim.h"
#include "cell/shim/streams.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"

#define RESOLVER 0xc6120001U /* 198.18.0.1, as in the cells' resolv.conf */
#define QUERY_MAX 4096U
#define ANSWER_MAX 16384U
#define TIMEOUT_MS 10000U
#define DNS_PORT 53U
#define DNS_HEAD 12U
#define DNS_IS_ANSWER 0x80U /* in byte 2 */
#define DNS_CODE 0x0fU	    /* in byte 3 */
#define DNS_REFUSED 5U	    /* a code */

struct ask {
	bool used;
	bool is_copy; /* of a datagram that the guest's kernel refused */
	int pair, udp;
	struct loop_fd from_guest, from_server;
	struct loop_timer late;
	uint8_t query[2 + QUERY_MAX];
	size_t have;
};

static struct ask asks[DNS_ASK_MAX];

static void dns_ask_end(struct ask *a)
{
	loop_timer_cancel(shim_loop, &a->late);
	loop_remove(shim_loop, &a->from_guest);
	loop_remove(shim_loop, &a->from_server);
	io_close_all(&a->pair, 1); /* the stream sees its end */
	io_close_all(&a->udp, 1);
	a->used = false;
}

static void on_late(struct loop_timer *t)
{
	dns_ask_end(t->arg);
}

static size_t dns_ask_length(const struct ask *a)
{
	return (size_t)a->query[0] << 8 | a->query[1];
}

/* The bytes of a copy: the guest tells their number only. */
static const uint8_t zeros[UINT16_MAX];

/* The query is complete: nothing more is read. */
static void dns_ask_send_query(struct ask *a)
{
	struct err e;

	loop_remove(shim_loop, &a->from_guest);
	if (a->is_copy) {
		IGNORED(send(a->udp, zeros, dns_ask_length(a), MSG_DONTWAIT | MSG_NOSIGNAL),
			"it is for the record only");
		dns_ask_end(a);
		return;
	}
	if (send(a->udp, a->query + 2, a->have - 2, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ||
	    loop_add(shim_loop, &a->from_server, a->udp, EPOLLIN, &e) < 0)
		dns_ask_end(a);
}

static void on_query(struct loop_fd *f, uint32_t events)
{
	struct ask *a = f->arg;
	size_t want = a->have < 2 || a->is_copy ? 2 : 2 + dns_ask_length(a);
	ssize_t n;

	if (want > sizeof(a->query)) {
		dns_ask_end(a);
		return;
	}
	n = read(a->pair, a->query + a->have, want - a->have);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		dns_ask_end(a);
		return;
	}
	a->have += (size_t)n;
	if ((a->have > 2 || a->is_copy) && a->have == want)
		dns_ask_send_query(a);
}

/* The cell has no network, so no resolver listens in it: the guest's programs are told at once, by
 * their query with another head, and do not wait for an answer that cannot come. */
static void dns_ask_answer_refused(struct ask *a)
{
	if (a->have < 2 + DNS_HEAD)
		return;
	a->query[2 + 2] |= DNS_IS_ANSWER;
	a->query[2 + 3] = (uint8_t)((a->query[2 + 3] & ~DNS_CODE) | DNS_REFUSED);
	IGNORED(send(a->pair, a->query, a->have, MSG_DONTWAIT | MSG_NOSIGNAL),
		"the guest has gone");
}

static void on_answer(struct loop_fd *f, uint32_t events)
{
	struct ask *a = f->arg;
	uint8_t answer[2 + ANSWER_MAX];
	ssize_t n = recv(a->udp, answer + 2, ANSWER_MAX, MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 && errno == ECONNREFUSED)
		dns_ask_answer_refused(a);
	if (n > 0 && n <= (ssize_t)ANSWER_MAX) {
		answer[0] = (uint8_t)(n >> 8);
		answer[1] = (uint8_t)n;
		IGNORED(send(a->pair, answer, (size_t)n + 2, MSG_DONTWAIT | MSG_NOSIGNAL),
			"the guest has gone, or sees a short answer");
	}
	dns_ask_end(a);
}

static int dns_ask_connect_udp(const struct mux_open *o, bool own)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(o->port),
				  .sin_addr.s_addr = htonl(RESOLVER) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(o->port) };
	bool is_v6 = o->family == 6 && !own;
	OWN_FD fd =
		socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (o->family == 4 && !own)
		memcpy(&v4.sin_addr, o->address, 4);
	memcpy(&v6.sin6_addr, o->address, 16);
	if (fd < 0 || (is_v6 ? connect(fd, (struct sockaddr *)&v6, sizeof(v6))
			     : connect(fd, (struct sockaddr *)&v4, sizeof(v4))) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* False: it cannot be tried. The caller closes the stream. */
static bool dns_ask_start(struct ask *a, uint16_t number)
{
	struct stream *s;
	struct err e;
	int pair[2];

	if (a->udp < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return false;
	a->pair = pair[0];
	s = stream_new(pair[1], MUX_BOTH, true);
	if (s == NULL)
		return false;
	if (loop_add(shim_loop, &a->from_guest, a->pair, EPOLLIN, &e) < 0) {
		stream_free(s, 0);
		return false;
	}
	mux_answer(&carrier_mux, number, MUX_WINDOW);
	stream_join(s, number);
	loop_timer_set(shim_loop, &a->late, clock_now_ns() + TIMEOUT_MS * CLOCK_MS);
	return true;
}

void dns_ask_begin(uint16_t number, const struct mux_open *o, bool own)
{
	struct ask *a = NULL;

	for (size_t i = 0; a == NULL && i < DNS_ASK_MAX; i++)
		if (!asks[i].used)
			a = &asks[i];
	if (a == NULL) {
		mux_reset(&carrier_mux, number, EAGAIN);
		return;
	}
	memset(a, 0, sizeof(*a));
	a->used = true;
	a->is_copy = o->port != DNS_PORT;
	a->pair = -1;
	a->udp = dns_ask_connect_udp(o, own);
	a->from_guest = (struct loop_fd){ .fd = -1, .on_ready = on_query, .arg = a };
	a->from_server = (struct loop_fd){ .fd = -1, .on_ready = on_answer, .arg = a };
	a->late = (struct loop_timer){ .on_expire = on_late, .arg = a };
	if (dns_ask_start(a, number))
		return;
	mux_reset(&carrier_mux, number, EAGAIN);
	dns_ask_end(a);
}
