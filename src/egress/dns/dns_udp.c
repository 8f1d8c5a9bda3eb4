/* dns_udp.c - theory of operation
 *
 * PID 1 of the cell holds the UDP socket, too, and may be hostile: it may clear O_NONBLOCK (so
 * every call has MSG_DONTWAIT), read the datagram that woke egress, or leave the socket ready
 * forever with nothing to read (shutdown(2), pending errors). After IDLE_WAKES such wakes in a row
 * the socket is not watched for PAUSE_NS: the cell has no resolver during that time, and other
 * cells are not affected.
 *
 * The socket receives more than queries. Packet rules of the cell (tools/gen-cell-network) send it
 * a copy of each datagram that no socket of the cell takes, a hundred a second at most: such a copy
 * has the address the program sent to as its destination, the port as its source port, and no
 * source address. The kernel refuses the datagram itself. A cell of an earlier version has no such
 * rules. Neither copies nor datagrams to port 53 other than queries are answered: they are noted
 * for the record. */
#include "egress/dns/dns_udp.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>

#include "egress/dns/dns.h"
#include "egress/dns/dns_state.h"
#include "egress/flow/datagrams.h"
#include "lib/base/clock.h"
#include "lib/outbound/dns_msg.h"

#define AT_A_TIME 32
#define IDLE_WAKES 16
#define PAUSE_NS (1000 * CLOCK_MS)
#define QUERY_MAX 4096
#define DNS_PORT 53

/* Room for either kind of pktinfo, and for a little that PID 1 may have turned on. */
union dns_udp_control {
	struct cmsghdr align;
	uint8_t bytes[256];
};

static void on_pause_over(struct loop_timer *t)
{
	struct dns_state *s = t->arg;
	struct egress_session *session = s->session;
	struct err e;

	s->idle_wakes = 0;
	if (session->udp < 0 || session->udp_watch.fd >= 0)
		return; /* another socket has been attached since */
	if (loop_add(session->egress->loop, &session->udp_watch, session->udp, EPOLLIN, &e) < 0)
		loop_timer_set(session->egress->loop, t, clock_now_ns() + PAUSE_NS);
}

static void note_idle(struct egress_session *session)
{
	struct dns_state *s = dns_state_of(session);

	if (!s || ++s->idle_wakes < IDLE_WAKES)
		return;
	loop_remove(session->egress->loop, &session->udp_watch);
	s->pause.on_expire = on_pause_over;
	s->pause.arg = s;
	loop_timer_set(session->egress->loop, &s->pause, clock_now_ns() + PAUSE_NS);
}

/* Leave in m, as control data for the answer, its source address: the one asked. The interface is
 * not named: there is only one. */
static void keep_pktinfo(struct msghdr *m, union dns_udp_control *to)
{
	struct msghdr out = { .msg_control = to, .msg_controllen = sizeof(*to) };
	struct cmsghdr *w = CMSG_FIRSTHDR(&out);
	size_t used = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c && used == 0; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
		    c->cmsg_len == CMSG_LEN(sizeof(struct in6_pktinfo))) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			info.ipi6_ifindex = 0;
			*w = (struct cmsghdr){ .cmsg_level = IPPROTO_IPV6,
					       .cmsg_type = IPV6_PKTINFO,
					       .cmsg_len = CMSG_LEN(sizeof(info)) };
			memcpy(CMSG_DATA(w), &info, sizeof(info));
			used = CMSG_SPACE(sizeof(info));
		}
	}
	m->msg_control = used > 0 ? to : NULL;
	m->msg_controllen = used;
}

/* The address that a datagram was sent to. "::" if PID 1 turned off that the kernel says it. */
static struct ip destination_of(struct msghdr *m)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct ip ret = { 0 };
	uint16_t port;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
		    c->cmsg_len == CMSG_LEN(sizeof(struct in6_pktinfo))) {
			memcpy(&ret, CMSG_DATA(c) + offsetof(struct in6_pktinfo, ipi6_addr),
			       sizeof(ret));
			return ret;
		}
		if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_PKTINFO &&
		    c->cmsg_len == CMSG_LEN(sizeof(struct in_pktinfo))) {
			memcpy(&v4.sin_addr, CMSG_DATA(c) + offsetof(struct in_pktinfo, ipi_addr),
			       sizeof(v4.sin_addr));
			if (ip_of_sockaddr((const struct sockaddr *)&v4, &ret, &port) == 0)
				return ret;
		}
	}
	return ret;
}

/* Is it a copy of a datagram to another port? */
static bool is_copy(const struct sockaddr_storage *peer, uint16_t *ret_port)
{
	static const struct ip none = { { 0 } }, none_v4 = { { [10] = 0xFF, [11] = 0xFF } };
	struct ip from;

	return ip_of_sockaddr((const struct sockaddr *)peer, &from, ret_port) == 0 &&
	       (memcmp(&from, &none, sizeof(none)) == 0 ||
		memcmp(&from, &none_v4, sizeof(none_v4)) == 0);
}

static void dns_udp_note(struct egress_session *session, struct msghdr *m, uint16_t port,
			 size_t len)
{
	const struct ip to = destination_of(m);

	datagrams_note(session, &to, port, len);
}

/* False: no datagram is queued. */
static bool serve_one(struct egress_session *session)
{
	uint8_t query[QUERY_MAX], answer[DNS_TEXT_MAX];
	struct sockaddr_storage peer;
	struct dns_msg_query q;
	union dns_udp_control got = { 0 }, put = { 0 };
	struct iovec bytes = { query, sizeof(query) };
	struct msghdr m = { .msg_name = &peer,
			    .msg_namelen = sizeof(peer),
			    .msg_iov = &bytes,
			    .msg_iovlen = 1,
			    .msg_control = &got,
			    .msg_controllen = sizeof(got) };
	/* MSG_TRUNC: the length of the datagram, also if it is longer than its place. */
	ssize_t n = recvmsg(session->udp, &m, MSG_DONTWAIT | MSG_TRUNC);
	uint16_t port;
	size_t len;

	if (n < 0)
		return false;
	if (m.msg_namelen == 0)
		return true;
	if (is_copy(&peer, &port)) {
		dns_udp_note(session, &m, port, (size_t)n);
		return true;
	}
	if (m.msg_flags & MSG_TRUNC || dns_msg_read_query(query, (size_t)n, &q) < 0) {
		dns_udp_note(session, &m, DNS_PORT, (size_t)n);
		return true;
	}
	len = dns_answer(session, query, (size_t)n, true, answer);
	if (len == 0)
		return true;
	keep_pktinfo(&m, &put);
	bytes = (struct iovec){ answer, len };
	/* If it cannot be sent it is lost: the client asks again. */
	(void)sendmsg(session->udp, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

void dns_udp_serve(struct egress_session *session)
{
	if (!serve_one(session)) {
		note_idle(session);
		return;
	}
	if (session->dns)
		session->dns->idle_wakes = 0;
	for (int i = 1; i < AT_A_TIME && serve_one(session); i++)
		;
}
