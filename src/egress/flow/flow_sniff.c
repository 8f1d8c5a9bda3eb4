/* flow_sniff.c - theory of operation
 *
 * First bytes are looked at with MSG_PEEK and stay in the socket, so that the next stage (TLS or
 * HTTP) reads the connection from its beginning. If they are too few to decide, SO_RCVLOWAT is
 * raised. Otherwise epoll would report the same bytes forever.
 *
 * Bytes read again may have changed: a program can splice(2) pages of its own into the socket and
 * write to them later, and PID 1 can move the point where a look begins (SO_PEEK_OFF). A stage that
 * reads on judges by the bytes it reads, but a connection relayed unread was judged by this look
 * alone. So the bytes looked at are kept and sent, and those in the socket are discarded. */
#include "egress/flow/flow_sniff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/flow/flow_relay.h"
#include "egress/flow/tls_hello.h"
#include "egress/gateway/deny_page.h"
#include "egress/gateway/gateway.h"
#include "egress/secrets/secrets.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/net/leaf_certs.h"
#include "lib/policy/packages_policy.h"

/* ---- theory of operation
 *
 * The head of CONNECT is taken out of the socket to the byte: bytes that a program sent after it
 * without waiting for the answer are the first of the tunnel, and flow_sniff.c reads them like
 * those of any other connection. The answer is "200" before egress connects anywhere: the first
 * bytes of the tunnel decide, and a refusal is sent in the protocol of the tunnel. */

static enum flow_connect flow_connect_answer(struct flow *f, int status, bool denied,
					     const char *reason, bool json)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);

	deny_page_write(&b,
			&(struct deny_page){ .status = status,
					     .denied = denied,
					     .reason = reason,
					     .rule = f->answer.rule ? f->answer.rule->name : NULL,
					     .json = json,
					     .close = true });
	/* The first bytes that egress sends on it: the socket has room. */
	(void)send(f->fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(f->fd, SHUT_WR);
	buf_release(&b);
	flow_record(f, false, reason);
	flow_end(f, false);
	return FLOW_CONNECT_ENDED;
}

/* Take a complete head out of the socket. */
static bool flow_connect_take_head(struct flow *f, size_t n)
{
	static char head[FLOW_HEAD_MAX];

	return recv(f->fd, head, n, MSG_DONTWAIT) == (ssize_t)n;
}

static enum flow_connect flow_connect_open_tunnel(struct flow *f, bool json)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	char why[POLICY_REASON_MAX];
	int low = 1;

	f->to_proxy = false;
	flow_judge(f);
	if (f->answer.verdict == POLICY_REFUSE) {
		memcpy(why, f->answer.reason, sizeof(why));
		return flow_connect_answer(f, 403, true, why, json);
	}
	(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	f->seen = 0;
	if (send(f->fd, ok, sizeof(ok) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(ok) - 1) {
		flow_end(f, true);
		return FLOW_CONNECT_ENDED;
	}
	return FLOW_CONNECT_TUNNEL;
}

enum flow_connect flow_connect(struct flow *f, const char *bytes, size_t len)
{
	struct http1_fault fault = { 0 };
	struct http1_request r;
	int n = http1_request_read(bytes, len, &r, &fault);
	const char *why = fault.words;
	bool json;

	if (n == 0 && len < FLOW_HEAD_MAX)
		return FLOW_CONNECT_MORE;
	if (n <= 0) {
		(void)flow_connect_take_head(f, len);
		return flow_connect_answer(f, n == 0 ? 431 : fault.status, false,
					   n == 0 ? "the head of the request is too long" : why,
					   false);
	}
	json = deny_page_wants_json(r.headers, r.headers_n);
	if (endpoint_read(f->session->names, r.authority, 0, &f->endpoint, &why) < 0) {
		f->endpoint = (struct endpoint){ .by_name = true };
		(void)flow_connect_take_head(f, (size_t)n);
		return flow_connect_answer(f, 400, false, why, json);
	}
	if (!flow_connect_take_head(f, (size_t)n)) {
		flow_end(f, true);
		return FLOW_CONNECT_ENDED;
	}
	return flow_connect_open_tunnel(f, json);
}

#define SNIFF_MS 10000 /* from the accept until the protocol is known */
/* As above, for a connection that will be refused: a program that waits for the server to send
 * first need not wait longer. */
#define EXPLAIN_MS 2000

static struct flow *flow_sniff_flow_of(const struct handshake *h)
{
	return (struct flow *)((uintptr_t)h - offsetof(struct flow, handshake));
}

static void on_end_sniffing(struct flow *f, bool cut)
{
	handshakes_drop(&f->handshake);
}

static void on_policy_change(struct flow *f, const struct secrets *was)
{
	if (!f->to_proxy)
		flow_judge(f);
}

static const struct flow_stage sniffing = { .on_end = on_end_sniffing,
					    .on_policy_change = on_policy_change };

enum flow_sniff_kind { KIND_MORE, KIND_TLS, KIND_HTTP, KIND_CONNECT, KIND_HTTP2, KIND_OTHER };

static const char http2[] = "PRI * HTTP/2.0\r\n";

/* A method and a space is HTTP. The parser refuses malformed text behind them. */
static enum flow_sniff_kind flow_sniff_kind_of(const uint8_t *bytes, size_t len)
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
static void flow_sniff_wait_more(struct flow *f, size_t seen)
{
	int low = (int)seen + 1;

	f->seen = seen;
	(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

static void flow_sniff_stop_sniffing(struct flow *f)
{
	int low = 1;

	if (f->seen > 0)
		(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	loop_remove(f->session->egress->loop, &f->watch);
	loop_timer_cancel(f->session->egress->loop, &f->timer);
}

static void flow_sniff_to_gateway(struct flow *f, struct tls *tls)
{
	struct err e = { 0 };

	if (f->answer.verdict != POLICY_REFUSE && !flow_count(f, tls ? TLS_ALERT_ACCESS_DENIED : 0))
		return;
	flow_sniff_stop_sniffing(f);
	f->scheme = tls ? "https" : "http";
	f->tls = tls ? "terminate" : NULL;
	if (gateway_start(f, tls, &e) < 0)
		flow_refuse(f, e.msg, 0);
}

/* A name that resolves though the policy refuses it: TLS is ended here, so that the program gets
 * the reason as the answer to its request. */
static bool flow_sniff_explains(const struct flow *f)
{
	return f->answer.verdict == POLICY_REFUSE && f->endpoint.host[0] != '\0' &&
	       policy_answers_refused(f->session->policy);
}

static const char *flow_sniff_certificate_name(const struct handshake *h, char ret[HOST_MAX])
{
	const struct flow *f = flow_sniff_flow_of(h);

	if (f->sni[0])
		return f->sni;
	endpoint_name(&f->endpoint, ret);
	return ret;
}

static void on_handshake(struct handshake *h)
{
	struct flow *f = flow_sniff_flow_of(h);
	struct err e = { 0 };
	char name[HOST_MAX];
	struct tls *tls;

	if (f->answer.verdict == POLICY_REFUSE &&
	    !flow_sniff_explains(f)) { /* it may have changed since */
		flow_refuse(f, f->answer.reason, TLS_ALERT_ACCESS_DENIED);
		return;
	}
	tls = leaf_certs_server(f->session->egress->leaf_certs,
				flow_sniff_certificate_name(h, name), &e);
	if (tls)
		flow_sniff_to_gateway(f, tls);
	else
		flow_refuse(f, e.msg, TLS_ALERT_ACCESS_DENIED);
}

/* Nothing more is read until it is its turn. */
static void flow_sniff_await_handshake(struct flow *f, const struct tls_hello *h)
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
	f->handshake.name = flow_sniff_certificate_name;
	handshakes_wait(&f->handshake);
}

/* Can the server know a secret: as the host or address of the connection, or by the name that the
 * program sends (SNI) to an address? */
static bool flow_sniff_can_know(const struct flow *f)
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
static bool flow_sniff_must_terminate(const struct flow *f, const struct tls_hello *h)
{
	const struct policy_rule *rule = f->answer.rule;
	enum policy_tls mode = rule ? rule->tls : POLICY_TLS_AUTO;

	if (f->answer.verdict == POLICY_INSPECT || mode != POLICY_TLS_AUTO)
		return f->answer.verdict == POLICY_INSPECT || mode == POLICY_TLS_TERMINATE;
	return (f->endpoint.host[0] && h->ech) || flow_sniff_can_know(f) ||
	       policy_packages(f->session->policy) != NULL;
}

/* Take them out of the socket, and keep those looked at. */
static bool flow_sniff_take_first(struct flow *f, const uint8_t *bytes, size_t len)
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

static void flow_sniff_decide_tls(struct flow *f, const struct tls_hello *h, const uint8_t *bytes,
				  size_t len)
{
	char why[2 * HOST_MAX + 64];

	memcpy(f->sni, h->sni, sizeof(f->sni));
	if (f->answer.verdict == POLICY_REFUSE && !flow_sniff_explains(f)) {
		str_copy(why, f->answer.reason);
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
	if (f->answer.verdict == POLICY_REFUSE || flow_sniff_must_terminate(f, h)) {
		flow_sniff_await_handshake(f, h);
		return;
	}
	flow_sniff_stop_sniffing(f);
	f->tls = "pass";
	if (flow_sniff_take_first(f, bytes, len))
		flow_relay(f);
	else
		flow_refuse(f, "the first bytes of the connection cannot be read",
			    TLS_ALERT_ACCESS_DENIED);
}

static void flow_sniff_tls(struct flow *f, const uint8_t *bytes, size_t len)
{
	struct tls_hello h;
	int got = tls_hello_read(bytes, len, &h);

	f->scheme = "https";
	if (f->to_proxy)
		flow_refuse(f, "the proxy accepts plain HTTP only, no TLS",
			    TLS_ALERT_ACCESS_DENIED);
	else if (got > 0)
		flow_sniff_decide_tls(f, &h, bytes, len);
	else if (got == 0 && len < TLS_HELLO_MAX)
		flow_sniff_wait_more(f, len);
	else
		flow_refuse(f, "malformed ClientHello", TLS_ALERT_ACCESS_DENIED);
}

static void flow_sniff_pass_raw(struct flow *f)
{
	flow_sniff_stop_sniffing(f);
	f->scheme = "tcp";
	flow_relay(f);
}

static void on_connect_request(struct flow *f, const uint8_t *bytes, size_t len)
{
	switch (flow_connect(f, (const char *)bytes, len)) {
	case FLOW_CONNECT_MORE:
		flow_sniff_wait_more(f, len);
		break;
	case FLOW_CONNECT_TUNNEL: /* the watch continues with the first bytes of the tunnel */
		if (flow_is_raw(f))
			flow_sniff_pass_raw(f);
		break;
	case FLOW_CONNECT_ENDED:
		break;
	}
}

static void flow_sniff_sniff(struct flow *f, const uint8_t *bytes, size_t len)
{
	switch (flow_sniff_kind_of(bytes, len)) {
	case KIND_MORE:
		flow_sniff_wait_more(f, len);
		break;
	case KIND_TLS:
		flow_sniff_tls(f, bytes, len);
		break;
	case KIND_CONNECT:
		if (f->to_proxy)
			on_connect_request(f, bytes, len);
		else
			flow_sniff_to_gateway(f, NULL);
		break;
	case KIND_HTTP:
		flow_sniff_to_gateway(f, NULL);
		break;
	case KIND_HTTP2:
		flow_refuse(f, "HTTP/2 without TLS is not supported: use HTTP/1.1", 0);
		break;
	case KIND_OTHER:
		if (f->answer.verdict == POLICY_PERMIT && f->answer.raw) {
			flow_sniff_pass_raw(f);
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
		flow_sniff_sniff(f, bytes, (size_t)n);
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
		       f->start_ns + (flow_sniff_explains(f) ? EXPLAIN_MS : SNIFF_MS) * CLOCK_MS);
}
