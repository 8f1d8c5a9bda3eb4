/* flow_accept.c - theory of operation
 *
 * A connection is accepted from the session's TCP listener, and the address it was made to
 * (getsockname()) is where the program wanted to go: a name, if the address is a synthetic one. The
 * policy decides its possible ways: nothing, bytes of any kind, or traffic whose first bytes must
 * be looked at. Those of a refused connection are looked at, too: a program that speaks HTTP or TLS
 * gets the reason as an answer.
 *
 * Before that the cell is asked which program made the connection (owner_query.h), for its record.
 *
 * Everything is bounded: flows per session, accepts per turn, time until the protocol is known. */
#include "egress/flow/flow_accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/control/access_record.h"
#include "egress/dns/dns_tcp.h"
#include "egress/dns/synthetic_names.h"
#include "egress/flow/flow.h"
#include "egress/flow/flow_relay.h"
#include "egress/flow/flow_sniff.h"
#include "egress/flow/idle_conns.h"
#include "egress/flow/owner_query.h"
#include "lib/base/clock.h"
#include "lib/base/untrusted_fd.h"

#define PAUSE_MS 100 /* without descriptors */
#define REJECTED_NS (1000 * CLOCK_MS)
#define OWNER_WAIT_MS 100 /* see owner_query.c */

/* The connection goes to f->endpoint.ip and f->endpoint.port. */
static void flow_accept_begin(struct flow *f)
{
	struct ip ip = f->endpoint.ip;
	uint16_t port = f->endpoint.port;

	if (synthetic_names_is_listener(&ip) && port == SYNTHETIC_NAMES_PROXY_PORT) {
		f->to_proxy = f->proxied = true;
		f->answer.verdict = POLICY_INSPECT;
		flow_sniff(f);
		return;
	}
	endpoint_at(f->session->names, &ip, port, &f->endpoint);
	flow_judge(f);
	if (flow_is_raw(f)) {
		f->scheme = "tcp";
		flow_relay(f);
	} else {
		flow_sniff(f);
	}
}

/* ---- the cell is asked which program made it */

static void on_end_asking(struct flow *f, bool cut)
{
	f->owner.id = 0;
}

/* It is judged when it begins. */
static void on_policy_change(struct flow *f, const struct secrets *was)
{
}

static const struct flow_stage asking = { .on_end = on_end_asking,
					  .on_policy_change = on_policy_change };

static void on_owner(struct flow *f)
{
	loop_timer_cancel(f->session->egress->loop, &f->timer);
	flow_accept_begin(f);
}

static void on_no_answer(struct loop_timer *t)
{
	struct flow *f = t->arg;

	owner_query_give_up(f);
	flow_accept_begin(f);
}

static void flow_accept_ask(struct egress_session *session, int fd,
			    const struct sockaddr_storage *peer, const struct ip *ip, uint16_t port)
{
	struct loop *l = session->egress->loop;
	struct flow *f = flow_new(session, fd);
	uint16_t from_port = 0;
	struct ip from;

	if (f == NULL)
		return;
	f->endpoint = (struct endpoint){ .ip = *ip, .port = port };
	f->owner.on_answer = on_owner;
	if (ip_of_sockaddr((const struct sockaddr *)peer, &from, &from_port) < 0 ||
	    !owner_query_ask(f, &from, from_port, ip, port)) {
		flow_accept_begin(f);
		return;
	}
	f->stage = &asking;
	f->timer = (struct loop_timer){ .on_expire = on_no_answer, .arg = f };
	loop_timer_set(l, &f->timer, loop_now_ns(l) + OWNER_WAIT_MS * CLOCK_MS);
}

/* Over a limit of connections. Recorded once a second at most: otherwise a cell could fill the log.
 */
static void flow_accept_reject(struct egress_session *session, int fd, const struct ip *ip,
			       uint16_t port, const char *reason)
{
	uint64_t now = loop_now_ns(session->egress->loop);
	const struct owner not_asked = { .result = OWNER_TOO_MANY };
	struct access_record r = { .kind = ACCESS_RECORD_CONNECT,
				   .start_ns = now,
				   .owner = &not_asked,
				   .ip = ip,
				   .port = port,
				   .reason = reason };

	flow_reset_fd(fd);
	if (session->rejected_ns + REJECTED_NS > now)
		return;
	session->rejected_ns = now;
	access_record_send(session, &r);
}

/* Made to the listener's own address and port, not redirected to it by the packet rules: from
 * inside the cell, or through one of its published ports. It leads nowhere and is not recorded. */
static bool is_own_port(const struct ip *ip, uint16_t port)
{
	static const struct ip v6 = { { [15] = 1 } };

	return port == FLOW_OWN_PORT && ((ip_is_v4(ip) && ip->b[12] == 127) || ip_same(ip, &v6));
}

static void on_accepted(struct egress_session *session, int fd, const struct sockaddr_storage *peer)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);
	uint16_t port = 0;
	struct ip ip;

	/* Without it the last records of a handshake and an answer wait for the cell's delayed ACK:
	 * 40 ms for each new TLS connection. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
	    ip_of_sockaddr((struct sockaddr *)&at, &ip, &port) < 0)
		flow_reset_fd(fd);
	else if (is_own_port(&ip, port))
		flow_reset_fd(fd);
	else if (port == 53)
		dns_tcp_serve(session, fd);
	else if (session->nflows >= EGRESS_SESSION_FLOWS_MAX)
		flow_accept_reject(session, fd, &ip, port, "this session has too many connections");
	else if (!resource_share_take_fds(&session->share, RESOURCE_SHARE_FLOW_FDS))
		flow_accept_reject(
			session, fd, &ip, port,
			"this tenant's sessions have too many connections for this node");
	else
		flow_accept_ask(session, fd, peer, &ip, port);
}

static void on_again(struct loop_timer *t)
{
	struct egress_session *session = t->arg;

	loop_modify(session->egress->loop, &session->tcp_watch, EPOLLIN);
}

/* Out of descriptors: stops watching the listener for a while, or epoll would report it in every
 * turn. */
static void pause_accept(struct egress_session *session)
{
	struct loop *l = session->egress->loop;
	struct loop_timer *t = &session->accept_again;

	idle_conns_empty(session->idle_conns);
	loop_modify(l, &session->tcp_watch, 0);
	*t = (struct loop_timer){ .place = t->place, .on_expire = on_again, .arg = session };
	loop_timer_set(l, t, loop_now_ns(l) + PAUSE_MS * CLOCK_MS);
}

int flow_accept(struct egress_session *session)
{
	struct sockaddr_storage peer;
	socklen_t len;

	while (resource_share_turn_accept(&session->share)) {
		int fd;

		len = sizeof(peer);
		fd = untrusted_accept(session->tcp, &peer, &len);
		if (fd >= 0) {
			on_accepted(session, fd, &peer);
			continue;
		}
		/* PID 1 of the cell made it block, or stopped it listening: epoll would report it
		 * forever. */
		if (errno == EDEADLK || errno == EINVAL)
			return -1;
		if (errno == EMFILE || errno == ENFILE)
			pause_accept(session);
		break;
	}
	return 0;
}
