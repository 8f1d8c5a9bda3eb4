/* dns_tcp.c - DNS over TCP (RFC 7766): a length of two bytes before each message. One query of a
 * connection at a time. The next is read after the answer is written. */
#include "egress/dns/dns_tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/dns/dns.h"
#include "egress/dns/dns_state.h"
#include "lib/base/clock.h"

#define CONNS_MAX 16
#define QUERIES_MAX 100 /* of one connection */
#define QUERY_MAX 1024
#define LIFE_NS (30000 * CLOCK_MS)

struct dns_conn {
	struct dns_conn *next;
	struct egress_session *session;
	int fd;
	struct loop_fd watch;
	struct loop_timer end;
	unsigned served;
	uint8_t in[2 + QUERY_MAX], out[2 + DNS_TEXT_MAX];
	size_t nin, nout, sent;
};

static void dns_tcp_cut(struct dns_conn *c)
{
	struct dns_state *s = c->session->dns;
	struct dns_conn **p = &s->conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	s->nconns--;
	loop_remove(c->session->egress->loop, &c->watch);
	loop_timer_cancel(c->session->egress->loop, &c->end);
	fd_close(c->fd);
	free(c);
}

static void on_end(struct loop_timer *t)
{
	dns_tcp_cut(t->arg);
}

/* Bytes of the query being read, with its length field. 2 while the length is not known. */
static size_t dns_tcp_wanted(const struct dns_conn *c)
{
	return c->nin < 2 ? 2 : 2 + ((size_t)c->in[0] << 8 | c->in[1]);
}

/* 1: the query is complete. 0: not yet. -1: the connection has ended. */
static int read_query(struct dns_conn *c)
{
	while (c->nin < dns_tcp_wanted(c)) {
		ssize_t n;

		if (dns_tcp_wanted(c) > sizeof(c->in))
			return -1;
		n = recv(c->fd, c->in + c->nin, dns_tcp_wanted(c) - c->nin, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		c->nin += (size_t)n;
	}
	return c->nin > 2 ? 1 : -1;
}

static int dns_tcp_compose(struct dns_conn *c)
{
	size_t n = dns_answer(c->session, c->in + 2, c->nin - 2, false, c->out + 2);

	if (n == 0 || ++c->served > QUERIES_MAX)
		return -1;
	c->out[0] = (uint8_t)(n >> 8);
	c->out[1] = (uint8_t)n;
	c->nout = n + 2;
	c->sent = c->nin = 0;
	return 0;
}

/* 1: written. 0: not yet. -1: the connection has ended. */
static int write_answer(struct dns_conn *c)
{
	while (c->sent < c->nout) {
		ssize_t n = send(c->fd, c->out + c->sent, c->nout - c->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return -1;
		c->sent += (size_t)n;
	}
	return 1;
}

/* Serve one query per turn of the loop, so that one connection does not delay the others. */
static int dns_tcp_advance(struct dns_conn *c)
{
	int more;

	if (c->sent == c->nout) {
		more = read_query(c);
		if (more <= 0)
			return more;
		if (dns_tcp_compose(c) < 0)
			return -1;
	}
	more = write_answer(c);
	if (more >= 0)
		loop_modify(c->session->egress->loop, &c->watch, more > 0 ? EPOLLIN : EPOLLOUT);
	return more;
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct dns_conn *c = f->arg;

	if (dns_tcp_advance(c) < 0)
		dns_tcp_cut(c);
}

void dns_tcp_serve(struct egress_session *session, int fd)
{
	OWN_FD owned = fd;
	struct dns_state *s = dns_state_of(session);
	struct dns_conn *c;
	struct err e;

	if (!s || s->nconns == CONNS_MAX)
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	*c = (struct dns_conn){ .session = session,
				.fd = fd,
				.watch = { .fd = -1, .on_ready = on_ready, .arg = c },
				.end = { .on_expire = on_end, .arg = c } };
	if (loop_add(session->egress->loop, &c->watch, fd, EPOLLIN, &e) < 0) {
		free(c);
		return;
	}
	loop_timer_set(session->egress->loop, &c->end, clock_now_ns() + LIFE_NS);
	(void)TAKE_FD(owned);
	c->next = s->conns;
	s->conns = c;
	s->nconns++;
}

void dns_tcp_cut_all(struct egress_session *session)
{
	while (session->dns && session->dns->conns)
		dns_tcp_cut(session->dns->conns);
}
