/* dns_udp.c - theory of operation
 *
 * PID 1 of the cell holds the UDP socket, too, and may be hostile: it may clear O_NONBLOCK (so
 * every call has MSG_DONTWAIT), read the datagram that woke egress, or leave the socket ready for
 * ever with nothing to read (shutdown(2), pending errors). After IDLE_WAKES such wakes in a row the
 * socket is not watched for PAUSE_NS: the cell has no resolver during that time, and other cells
 * are not affected. */
#include "dns_udp.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>

#include "clock.h"
#include "dns.h"
#include "dns_msg.h"
#include "dns_state.h"

#define AT_A_TIME 32
#define IDLE_WAKES 16
#define PAUSE_NS (1000 * CLOCK_MS)
#define QUERY_MAX 4096

/* Room for either kind of pktinfo, and for a little that PID 1 may have turned on. */
union control {
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
		return; /* another socket was attached meanwhile */
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

/* Leaves in m, as control data for the answer, its source address: the one that was asked. The
 * interface is not named: there is only one. */
static void keep_pktinfo(struct msghdr *m, union control *to)
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

/* False: no datagram is queued. */
static bool serve_one(struct egress_session *session)
{
	uint8_t query[QUERY_MAX], answer[DNS_TEXT_MAX];
	struct sockaddr_storage peer;
	union control got = { 0 }, put = { 0 };
	struct iovec bytes = { query, sizeof(query) };
	struct msghdr m = { .msg_name = &peer,
			    .msg_namelen = sizeof(peer),
			    .msg_iov = &bytes,
			    .msg_iovlen = 1,
			    .msg_control = &got,
			    .msg_controllen = sizeof(got) };
	ssize_t n = recvmsg(session->udp, &m, MSG_DONTWAIT);
	size_t len;

	if (n < 0)
		return false;
	if (m.msg_flags & MSG_TRUNC || m.msg_namelen == 0)
		return true;
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
