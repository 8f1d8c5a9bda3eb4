/* flow_sniff.c - theory of operation
 *
 * First bytes are looked at with MSG_PEEK and stay in the socket, so that the next stage (TLS or
 * HTTP) reads the connection from its beginning. If they are too few to decide, SO_RCVLOWAT is
 * raised; otherwise epoll would report the same bytes for ever.
 *
 * What is read again may have changed: a program can splice(2) pages of its own into the socket and
 * write to them later, and PID 1 can move the point where a look begins (SO_PEEK_OFF). A stage that
 * reads on judges by what it reads; but a connection that is relayed unread was judged by this look
 * alone. So the bytes that were looked at are kept and sent, and those in the socket are discarded.
 */
#include "flow_sniff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "flow_connect.h"
#include "flow_relay.h"
#include "gateway.h"
#include "leaf_certs.h"
#include "packages_policy.h"
#include "secrets.h"
#include "tls_hello.h"

#define SNIFF_MS 10000 /* from the accept until the protocol is known */
/* The same for a connection that will be refused: a program that waits for the server to send first
 * need not wait longer. */
#define EXPLAIN_MS 2000

static struct flow *flow_of(const struct handshake *h)
{
	return (struct flow *)((uintptr_t)h - offsetof(struct flow, handshake));
}

static void on_end_sniffing(struct flow *f, bool cut)
{
	(void)cut;
	handshakes_drop(&f->handshake);
}

static void on_policy_change(struct flow *f, const struct secrets *was)
{
	(void)was;
	if (!f->to_proxy)
		flow_judge(f);
}

static const struct flow_stage sniffing = { .on_end = on_end_sniffing,
					    .on_policy_change = on_policy_change };

enum kind { KIND_MORE, KIND_TLS, KIND_HTTP, KIND_CONNECT, KIND_HTTP2, KIND_OTHER };

static const char http2[] = "PRI * HTTP/2.0\r\n";

/* A method and a space is HTTP; the parser refuses what is malformed behind them. */
static enum kind kind_of(const uint8_t *bytes, size_t len)
{
	size_t n = 0;

	if (tls_hello_is_tls(bytes, len))
		return KIND_TLS;
	if (memcmp(bytes, http2, len < sizeof(http2) - 1 ? len : sizeof(http2) - 1) == 0)
		return len < sizeof(http2) - 1 ? KIND_MORE : KIND_HTTP2;
	while (n < len && n <= HTTP1_METHOD_MAX && bytes[n] != ' ')
		n++;
	if (n == 0 || n > HTTP1_METHOD_MAX || !http1_is_token((const char *)bytes, n))
		return KIND_OTHER;
	if (n == len)
		return KIND_MORE;
	return n == 7 && memcmp(bytes, "CONNECT", 7) == 0 ? KIND_CONNECT : KIND_HTTP;
}

/* More bytes than these are needed. */
static void wait_more(struct flow *f, size_t seen)
{
	int low = (int)seen + 1;

	f->seen = seen;
	(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

static void stop_sniffing(struct flow *f)
{
	int low = 1;

	if (f->seen > 0)
		(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	loop_remove(f->session->egress->loop, &f->watch);
	loop_timer_cancel(f->session->egress->loop, &f->timer);
}

static void to_gateway(struct flow *f, struct tls *tls)
{
	struct err e = { 0 };

	if (f->answer.verdict != POLICY_REFUSE && !flow_count(f, tls ? TLS_ALERT_ACCESS_DENIED : 0))
		return;
	stop_sniffing(f);
	f->scheme = tls ? "https" : "http";
	f->tls = tls ? "terminate" : NULL;
	if (gateway_start(f, tls, &e) < 0)
		flow_refuse(f, e.msg, 0);
}

/* A name that resolves though the policy refuses it: TLS is ended here, so that the program gets
 * the reason as the answer to its request. */
static bool explains(const struct flow *f)
{
	return f->answer.verdict == POLICY_REFUSE && f->endpoint.host[0] != '\0' &&
	       policy_answers_refused(f->session->policy);
}

static const char *certificate_name(const struct handshake *h, char ret[HOST_MAX])
{
	const struct flow *f = flow_of(h);

	if (f->sni[0])
		return f->sni;
	endpoint_name(&f->endpoint, ret);
	return ret;
}

static void on_handshake(struct handshake *h)
{
	struct flow *f = flow_of(h);
	struct err e = { 0 };
	char name[HOST_MAX];
	struct tls *tls;

	if (f->answer.verdict == POLICY_REFUSE && !explains(f)) { /* it may have changed since */
		flow_refuse(f, f->answer.reason, TLS_ALERT_ACCESS_DENIED);
		return;
	}
	tls = leaf_certs_server(f->session->egress->leaf_certs, certificate_name(h, name), &e);
	if (tls)
		to_gateway(f, tls);
	else
		flow_refuse(f, e.msg, TLS_ALERT_ACCESS_DENIED);
}

/* Nothing more is read until it is its turn. */
static void await_handshake(struct flow *f, const struct tls_hello *h)
{
	if (h->alpn && !h->http1) {
		flow_refuse(f,
			    "the program offers HTTP/2 only, and egress inspects HTTP/1.1 "
			    "requests only",
			    TLS_ALERT_NO_PROTOCOL);
		return;
	}
	loop_modify(f->session->egress->loop, &f->watch, 0);
	f->handshake.session = f->session;
	f->handshake.on_turn = on_handshake;
	f->handshake.name = certificate_name;
	handshakes_wait(&f->handshake);
}

/* Can the server know a secret: as the host or address of the connection, or by the name that the
 * program sends (SNI) to an address? */
static bool can_know(const struct flow *f)
{
	struct egress_session *session = f->session;
	struct policy_target to = endpoint_target(&f->endpoint);
	struct mask_pick known;

	if (secrets_known_there(session->secrets, session->policy, &session->sent, &to, &known))
		return true;
	if (f->endpoint.host[0] || !f->sni[0])
		return false;
	to.host = f->sni;
	return secrets_known_also(session->secrets, session->policy, &session->sent, &to, &known);
}

/* Must egress terminate TLS, or may it relay the connection? Relayed, an encrypted ClientHello
 * could hide the real name, a secret bound to this host could not be put in, and none could be
 * masked in the answer. */
static bool must_terminate(const struct flow *f, const struct tls_hello *h)
{
	const struct policy_rule *rule = f->answer.rule;
	enum policy_tls mode = rule ? rule->tls : POLICY_TLS_AUTO;

	if (f->answer.verdict == POLICY_INSPECT || mode != POLICY_TLS_AUTO)
		return f->answer.verdict == POLICY_INSPECT || mode == POLICY_TLS_TERMINATE;
	return (f->endpoint.host[0] && h->ech) || can_know(f) ||
	       policy_packages(f->session->policy) != NULL;
}

/* Takes them out of the socket, and keeps those that were looked at. */
static bool take_first(struct flow *f, const uint8_t *bytes, size_t len)
{
	static uint8_t again[TLS_HELLO_MAX];
	size_t n = len < sizeof(again) ? len : sizeof(again);

	f->first = malloc(n);
	if (!f->first || recv(f->fd, again, n, MSG_DONTWAIT) != (ssize_t)n)
		return false;
	memcpy(f->first, bytes, n);
	f->first_n = n;
	return true;
}

static void decide_tls(struct flow *f, const struct tls_hello *h, const uint8_t *bytes, size_t len)
{
	char why[2 * HOST_MAX + 64];

	memcpy(f->sni, h->sni, sizeof(f->sni));
	if (f->answer.verdict == POLICY_REFUSE && !explains(f)) {
		(void)snprintf(why, sizeof(why), "%s", f->answer.reason);
		flow_refuse(f, why, TLS_ALERT_ACCESS_DENIED);
		return;
	}
	if (f->endpoint.host[0] && strcmp(f->sni, f->endpoint.host) != 0) {
		if (f->sni[0])
			(void)snprintf(why, sizeof(why), "SNI %s differs from the name %s", f->sni,
				       f->endpoint.host);
		else
			(void)snprintf(why, sizeof(why),
				       "the ClientHello has no SNI: it must be %s",
				       f->endpoint.host);
		flow_refuse(f, why, TLS_ALERT_UNRECOGNIZED_NAME);
		return;
	}
	if (f->answer.verdict == POLICY_REFUSE || must_terminate(f, h)) {
		await_handshake(f, h);
		return;
	}
	stop_sniffing(f);
	f->tls = "pass";
	if (take_first(f, bytes, len))
		flow_relay(f);
	else
		flow_refuse(f, "the first bytes of the connection cannot be read",
			    TLS_ALERT_ACCESS_DENIED);
}

static void sniff_tls(struct flow *f, const uint8_t *bytes, size_t len)
{
	struct tls_hello h;
	int got = tls_hello_read(bytes, len, &h);

	f->scheme = "https";
	if (f->to_proxy)
		flow_refuse(f, "the proxy accepts plain HTTP only, no TLS",
			    TLS_ALERT_ACCESS_DENIED);
	else if (got > 0)
		decide_tls(f, &h, bytes, len);
	else if (got == 0 && len < TLS_HELLO_MAX)
		wait_more(f, len);
	else
		flow_refuse(f, "malformed ClientHello", TLS_ALERT_ACCESS_DENIED);
}

static void pass_raw(struct flow *f)
{
	stop_sniffing(f);
	f->scheme = "tcp";
	flow_relay(f);
}

static void on_connect_request(struct flow *f, const uint8_t *bytes, size_t len)
{
	switch (flow_connect(f, (const char *)bytes, len)) {
	case FLOW_CONNECT_MORE:
		wait_more(f, len);
		break;
	case FLOW_CONNECT_TUNNEL: /* the watch goes on with the first bytes of the tunnel */
		if (flow_is_raw(f))
			pass_raw(f);
		break;
	case FLOW_CONNECT_ENDED:
		break;
	}
}

static void sniff(struct flow *f, const uint8_t *bytes, size_t len)
{
	switch (kind_of(bytes, len)) {
	case KIND_MORE:
		wait_more(f, len);
		break;
	case KIND_TLS:
		sniff_tls(f, bytes, len);
		break;
	case KIND_CONNECT:
		if (f->to_proxy)
			on_connect_request(f, bytes, len);
		else
			to_gateway(f, NULL);
		break;
	case KIND_HTTP:
		to_gateway(f, NULL);
		break;
	case KIND_HTTP2:
		flow_refuse(f, "HTTP/2 without TLS is not supported: use HTTP/1.1", 0);
		break;
	case KIND_OTHER:
		if (f->answer.verdict == POLICY_PERMIT && f->answer.raw) {
			pass_raw(f);
			break;
		}
		flow_refuse(f,
			    f->answer.verdict == POLICY_REFUSE
				    ? f->answer.reason
				    : "neither TLS nor HTTP: this needs a rule with protocol tcp",
			    0);
		break;
	}
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	static uint8_t bytes[FLOW_HEAD_MAX];
	struct flow *f = w->arg;
	ssize_t n = 0;

	if (handshakes_waits(&f->handshake)) { /* no event is waited for, so it is a hang-up */
		flow_end(f, true);
		return;
	}
	n = recv(f->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* The connection ended without a byte, as when ports are scanned. */
		if (f->answer.verdict == POLICY_REFUSE)
			flow_refuse(f, f->answer.reason, 0);
		else
			flow_end(f, n < 0);
		return;
	}
	if ((size_t)n <= f->seen && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
		flow_refuse(f, "the connection ended before its protocol was known", 0);
		return;
	}
	if ((size_t)n > f->seen)
		sniff(f, bytes, (size_t)n);
}

static void on_late(struct loop_timer *t)
{
	struct flow *f = t->arg;

	if (f->answer.verdict == POLICY_REFUSE)
		flow_refuse(f, f->answer.reason, 0);
	else if (handshakes_waits(&f->handshake))
		flow_refuse(f, "too many TLS connections of this session wait for their handshake",
			    0);
	else
		flow_refuse(f,
			    f->seen > 0 ? "the first bytes of the connection came too slowly"
					: "the program waits for the server to send first: this "
					  "needs a rule with protocol tcp",
			    0);
}

void flow_sniff(struct flow *f)
{
	struct loop *l = f->session->egress->loop;
	struct err e;

	f->stage = &sniffing;
	f->seen = 0;
	f->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = f };
	f->timer = (struct loop_timer){ .on_expire = on_late, .arg = f };
	if (loop_add(l, &f->watch, f->fd, EPOLLIN | EPOLLRDHUP, &e) < 0) {
		flow_refuse(f, e.msg, 0);
		return;
	}
	loop_timer_set(l, &f->timer,
		       f->start_ns + (explains(f) ? EXPLAIN_MS : SNIFF_MS) * CLOCK_MS);
}
