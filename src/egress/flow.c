/* flow.c - theory of operation
 *
 * A connection is taken out of the cell's listener, and the address it was made to (getsockname())
 * is where the program wanted to go: a name, if the address is one of those that stand for names.
 * The policy decides what may come of it: nothing, bytes of any kind, or what must be looked at
 * first. Even what is refused is looked at: a program that speaks HTTP or TLS is told why.
 *
 * Everything is bounded: flows per session, accepts per turn, time until it is known what it is. */
#include "flow.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "dns.h"
#include "flow_inside.h"
#include "untrusted_fd.h"
#include "gateway.h"
#include "handshakes.h"
#include "tls_hello.h"
#include "session_limits.h"
#include "synthetic_names.h"
#include "splice_relay.h"
#include "access_record.h"
#include "idle_conns.h"

#define PAUSE_MS 100 /* without descriptors */
#define TOLD_NS (1000 * CLOCK_MS)

static void reset(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

void flow_end(struct flow *f, bool cut)
{
	struct egress_session *g = f->session;
	struct loop *l = g->egress->loop;

	outbound_cancel(&f->outbound);
	handshakes_drop(f);
	loop_timer_cancel(l, &f->timer);
	loop_remove(l, &f->watch);
	gateway_free(f->gateway, cut, f->cut);
	splice_relay_free(f->pass);
	free(f->first);
	if (f->fd >= 0 && cut)
		reset(f->fd);
	else if (f->fd >= 0)
		fd_close(f->fd);
	if (f->counted)
		limits_connection_over(g);
	if (f->counted_by)
		f->counted_by->connections--;
	share_give_fds(g, SHARE_FLOW_FDS);
	*(f->prev ? &f->prev->next : &g->flows) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	g->nflows--;
	free(f);
}

void flow_record(struct flow *f, bool allowed, const char *reason)
{
	struct access_record r = { .kind = ATTEMPT_CONNECT,
				   .start_ns = f->start_ns,
				   .name = f->endpoint.host[0] ? f->endpoint.host : NULL,
				   .port = f->endpoint.port,
				   .scheme = f->scheme,
				   .tls = f->tls,
				   .allowed = allowed,
				   .rule = f->answer.rule,
				   .reason = reason,
				   .bytes_out = f->out,
				   .bytes_in = f->in,
				   .proxied = f->proxied };

	if (!r.name && f->sni[0])
		r.name = f->sni;
	if (f->connected)
		r.ip = &f->at;
	else if (!f->endpoint.by_name && !f->endpoint.host[0])
		r.ip = &f->endpoint.ip;
	access_record_send(f->session, &r);
}

/* What has arrived is taken first: closed with bytes unread, a connection is reset, and the alert
 * may be lost with it. */
static void say_alert(int fd, int description)
{
	uint8_t alert[TLS_HELLO_ALERT_LEN], rest[TLS_HELLO_MAX];

	tls_hello_alert(alert, description);
	for (int i = 0; i < 4 && recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
		continue;
	(void)send(fd, alert, sizeof(alert), MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(fd, SHUT_WR);
}

void flow_refuse(struct flow *f, const char *reason, int alert)
{
	flow_record(f, false, reason);
	if (alert > 0)
		say_alert(f->fd, alert);
	flow_end(f, alert <= 0);
}

bool flow_count(struct flow *f, int alert)
{
	const char *why;

	if (f->counted)
		return true;
	f->counted = limits_connection(f->session, &why);
	if (f->counted && flow_count_by(f, f->answer.rule, &why))
		return true;
	flow_refuse(f, why, alert);
	return false;
}

bool flow_count_by(struct flow *f, const struct policy_rule *rule, const char **ret_why)
{
	return limits_connection_by(f->session, rule, &f->counted_by, ret_why);
}

void flow_judge(struct flow *f)
{
	struct policy_target to = endpoint_target(&f->endpoint);

	f->answer = (struct policy_answer){ .verdict = POLICY_REFUSE };
	if (!f->endpoint.nowhere) {
		policy_connect(f->session->policy, &to, &f->answer);
		return;
	}
	(void)snprintf(f->answer.reason, sizeof(f->answer.reason),
		       "this address stands for no name any more, or never did: ask the resolver");
}

static void begin(struct egress_session *g, int fd, const struct ip *ip, uint16_t port)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		share_give_fds(g, SHARE_FLOW_FDS);
		reset(fd);
		return;
	}
	f->session = g;
	f->fd = fd;
	f->watch.fd = -1;
	f->outbound.fd = -1;
	f->start_ns = loop_now_ns(g->egress->loop);
	f->next = g->flows;
	if (f->next)
		f->next->prev = f;
	g->flows = f;
	g->nflows++;
	if (synthetic_names_is_door(ip) && port == SYNTHETIC_NAMES_PROXY_PORT) {
		f->door = f->proxied = true;
		f->endpoint = (struct endpoint){ .ip = *ip, .port = port };
		f->answer.verdict = POLICY_LOOK;
		flow_sniff(f);
		return;
	}
	endpoint_at(g, ip, port, &f->endpoint);
	flow_judge(f);
	if (flow_is_raw(f)) {
		f->scheme = "tcp";
		flow_pass(f);
	} else {
		flow_sniff(f);
	}
}

/* One more than there may be: said once a second at most, or it would be a way to fill the log. */
static void turn_away(struct egress_session *g, int fd, const struct ip *ip, uint16_t port,
		      const char *reason)
{
	uint64_t now = loop_now_ns(g->egress->loop);
	struct access_record r = {
		.kind = ATTEMPT_CONNECT, .start_ns = now, .ip = ip, .port = port, .reason = reason
	};

	reset(fd);
	if (g->turned_away_ns + TOLD_NS > now)
		return;
	g->turned_away_ns = now;
	access_record_send(g, &r);
}

/* Made to the listener itself, not led to it from elsewhere: from inside the cell, or through one
 * of its ports. There is nothing to be reached, and nobody to be told. */
static bool is_own_port(const struct ip *ip, uint16_t port)
{
	static const struct ip v6 = { { [15] = 1 } };

	return port == FLOW_OWN_PORT && ((ip_is_v4(ip) && ip->b[12] == 127) || ip_same(ip, &v6));
}

static void take(struct egress_session *g, int fd)
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
		reset(fd);
	else if (is_own_port(&ip, port))
		reset(fd);
	else if (port == 53)
		dns_serve_tcp(g, fd);
	else if (g->nflows >= EGRESS_SESSION_FLOWS_MAX)
		turn_away(g, fd, &ip, port, "this session has too many connections");
	else if (!share_take_fds(g, SHARE_FLOW_FDS))
		turn_away(g, fd, &ip, port,
			  "this tenant's sessions have too many connections for this node");
	else
		begin(g, fd, &ip, port);
}

static void on_again(struct loop_timer *t)
{
	struct egress_session *g = t->arg;

	loop_modify(g->egress->loop, &g->on_tcp, EPOLLIN);
}

/* What waits would be reported again and again: let it wait. */
static void hold_off(struct egress_session *g)
{
	struct loop *l = g->egress->loop;

	idle_conns_empty(g->upstreams);
	loop_modify(l, &g->on_tcp, 0);
	g->again = (struct loop_timer){ .place = g->again.place, .fire = on_again, .arg = g };
	loop_timer_set(l, &g->again, loop_now_ns(l) + PAUSE_MS * CLOCK_MS);
}

void flow_accept(struct egress_session *g)
{
	struct sockaddr_storage peer;
	socklen_t len;

	while (share_turn_accept(g)) {
		int fd;

		len = sizeof(peer);
		fd = untrusted_accept(g->tcp, &peer, &len);
		if (fd >= 0) {
			take(g, fd);
			continue;
		}
		/* PID 1 of the cell plays with it (makes it block, or listen no more): no door, or
		 * it would be reported for ever. */
		if (errno == EDEADLK || errno == EINVAL)
			egress_session_detach(g);
		else if (errno == EMFILE || errno == ENFILE)
			hold_off(g);
		return;
	}
}

void flow_recheck(struct egress_session *g, const struct secrets *was)
{
	struct flow *next;

	idle_conns_empty(g->upstreams);
	for (struct flow *f = g->flows; f; f = next) {
		next = f->next;
		if (f->state == FLOW_GATEWAY) {
			gateway_recheck(f->gateway, was);
		} else if (f->state == FLOW_SNIFF) {
			if (!f->door)
				flow_judge(f);
		} else {
			flow_pass_recheck(f);
		}
	}
}

void flow_cut_all(struct egress_session *g)
{
	while (g->flows) {
		struct flow *f = g->flows;

		f->cut = "the session's network was closed";
		if (f->state == FLOW_PASS || f->state == FLOW_DIAL)
			flow_record(f, true, f->cut);
		flow_end(f, true);
	}
}
