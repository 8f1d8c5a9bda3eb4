/* flow_sniff.c - theory of operation
 *
 * First bytes are looked at with MSG_PEEK and stay in the socket, so that whoever gets the
 * connection then (TLS or HTTP) reads it from its beginning. What is not enough to tell is waited
 * for with SO_RCVLOWAT, else epoll would report the same bytes for ever.
 *
 * What is read again may have changed: a program can splice(2) pages of its own into the socket and
 * write to them later, and PID 1 can have the look begin somewhere else (SO_PEEK_OFF). Whoever
 * reads on judges for himself; but for what is passed on unseen the look was all. So the very bytes
 * that were looked at are kept and sent, and those in the socket are thrown away. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "flow_inside.h"
#include "gateway.h"
#include "handshakes.h"
#include "tls_hello.h"
#include "leaf_certs.h"
#include "secrets.h"

enum kind { KIND_MORE, KIND_TLS, KIND_HTTP, KIND_CONNECT, KIND_HTTP2, KIND_OTHER };

static const char http2[] = "PRI * HTTP/2.0\r\n";

/* A method and a space is HTTP; the rest is for the parser to refuse. */
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

void flow_wait_more(struct flow *f, size_t seen)
{
	int low = (int)seen + 1;

	f->seen = seen;
	(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

static void stop_looking(struct flow *f)
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

	if (f->answer.verdict != POLICY_REFUSE && !flow_count(f, tls ? HELLO_ACCESS_DENIED : 0))
		return;
	stop_looking(f);
	f->scheme = tls ? "https" : "http";
	f->tls = tls ? "terminate" : NULL;
	if (gateway_start(f, tls, &e) < 0)
		flow_refuse(f, e.msg, 0);
}

/* What comes is looked at no more until it is its turn. */
static void await_handshake(struct flow *f, const struct tls_hello *h)
{
	if (h->alpn && !h->http1) {
		flow_refuse(f,
			    "the program insists on HTTP/2 where requests must be looked at, and "
			    "only HTTP/1.1 is spoken there",
			    HELLO_NO_PROTOCOL);
		return;
	}
	loop_modify(f->session->egress->loop, &f->watch, 0);
	handshakes_wait(f);
}

const char *flow_certified(const struct flow *f, char ret[HOST_MAX])
{
	if (f->sni[0])
		return f->sni;
	endpoint_name(&f->endpoint, ret);
	return ret;
}

void flow_handshake(struct flow *f)
{
	struct err e = { 0 };
	char name[HOST_MAX];
	struct tls *tls;

	if (f->answer.verdict == POLICY_REFUSE) { /* by now */
		flow_refuse(f, f->answer.reason, HELLO_ACCESS_DENIED);
		return;
	}
	tls = leaf_certs_server(f->session->egress->mint, flow_certified(f, name), &e);
	if (tls)
		to_gateway(f, tls);
	else
		flow_refuse(f, e.msg, HELLO_ACCESS_DENIED);
}

/* Can the server know a secret: by the name or the address of the connection, or by the name that
 * the program says to an address? */
static bool can_know(const struct flow *f)
{
	struct egress_session *g = f->session;
	struct policy_target to = endpoint_target(&f->endpoint);
	struct mask_pick known;

	if (secrets_known_there(g->secrets, g->policy, &g->sent, &to, &known))
		return true;
	if (f->endpoint.host[0] || !f->sni[0])
		return false;
	to.host = f->sni;
	return secrets_known_also(g->secrets, g->policy, &g->sent, &to, &known);
}

/* Could the name that counts be hidden in what cannot be read? Only if nobody looks inside. Nor
 * could a secret be put in there that is bound to this host, or be masked in the answer. */
static bool must_terminate(const struct flow *f, const struct tls_hello *h)
{
	const struct policy_rule *rule = f->answer.rule;
	enum policy_tls mode = rule ? rule->tls : POLICY_TLS_AUTO;

	if (f->answer.verdict == POLICY_LOOK || mode != POLICY_TLS_AUTO)
		return f->answer.verdict == POLICY_LOOK || mode == POLICY_TLS_TERMINATE;
	return (f->endpoint.host[0] && h->ech) || can_know(f);
}

/* Out of the socket, and kept as they were looked at. */
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
	if (f->answer.verdict == POLICY_REFUSE) {
		(void)snprintf(why, sizeof(why), "%s", f->answer.reason);
		flow_refuse(f, why, HELLO_ACCESS_DENIED);
		return;
	}
	if (f->endpoint.host[0] && strcmp(f->sni, f->endpoint.host) != 0) {
		if (f->sni[0])
			(void)snprintf(why, sizeof(why), "SNI %s differs from the name %s", f->sni,
				       f->endpoint.host);
		else
			(void)snprintf(why, sizeof(why), "no SNI: it must be %s", f->endpoint.host);
		flow_refuse(f, why, HELLO_UNRECOGNIZED_NAME);
		return;
	}
	if (must_terminate(f, h)) {
		await_handshake(f, h);
		return;
	}
	stop_looking(f);
	f->tls = "pass";
	if (take_first(f, bytes, len))
		flow_pass(f);
	else
		flow_refuse(f, "what it said first cannot be read", HELLO_ACCESS_DENIED);
}

static void look_at_tls(struct flow *f, const uint8_t *bytes, size_t len)
{
	struct tls_hello h;
	int got = tls_hello_read(bytes, len, &h);

	f->scheme = "https";
	if (f->door)
		flow_refuse(f, "the proxy is spoken to in plain HTTP", HELLO_ACCESS_DENIED);
	else if (got > 0)
		decide_tls(f, &h, bytes, len);
	else if (got == 0 && len < TLS_HELLO_MAX)
		flow_wait_more(f, len);
	else
		flow_refuse(f, "a ClientHello that cannot be read", HELLO_ACCESS_DENIED);
}

static void look(struct flow *f, const uint8_t *bytes, size_t len)
{
	switch (kind_of(bytes, len)) {
	case KIND_MORE:
		flow_wait_more(f, len);
		break;
	case KIND_TLS:
		look_at_tls(f, bytes, len);
		break;
	case KIND_CONNECT:
		if (f->door) {
			flow_connect(f, (const char *)bytes, len);
			break;
		}
		to_gateway(f, NULL);
		break;
	case KIND_HTTP:
		to_gateway(f, NULL);
		break;
	case KIND_HTTP2:
		flow_refuse(f, "HTTP/2 without TLS is not spoken here: use HTTP/1.1", 0);
		break;
	case KIND_OTHER:
		if (f->answer.verdict == POLICY_PERMIT && f->answer.raw) {
			stop_looking(f);
			f->scheme = "tcp";
			flow_pass(f);
			break;
		}
		flow_refuse(
			f,
			f->answer.verdict == POLICY_REFUSE
				? f->answer.reason
				: "neither TLS nor HTTP; a rule with protocol tcp would be needed",
			0);
		break;
	}
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	static uint8_t bytes[FLOW_HEAD_MAX];
	struct flow *f = w->arg;
	ssize_t n = 0;

	if (f->shake.group != NULL) { /* reported though nothing is waited for: it is broken */
		flow_end(f, true);
		return;
	}
	n = recv(f->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* Connected, said nothing, gone: a port that was tried. */
		if (f->answer.verdict == POLICY_REFUSE)
			flow_refuse(f, f->answer.reason, 0);
		else
			flow_end(f, n < 0);
		return;
	}
	if ((size_t)n <= f->seen && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
		flow_refuse(f, "it ended before it was known what it is", 0);
		return;
	}
	if ((size_t)n > f->seen)
		look(f, bytes, (size_t)n);
}

static void on_late(struct loop_timer *t)
{
	struct flow *f = t->arg;

	if (f->answer.verdict == POLICY_REFUSE)
		flow_refuse(f, f->answer.reason, 0);
	else if (f->shake.group != NULL)
		flow_refuse(f, "too many TLS connections of this session wait for their handshake",
			    0);
	else
		flow_refuse(f,
			    f->seen > 0 ? "too slow to say what it is"
					: "the program waits for the server to speak first; a rule "
					  "with protocol tcp would be needed",
			    0);
}

void flow_sniff(struct flow *f)
{
	struct loop *l = f->session->egress->loop;
	struct err e;

	f->state = FLOW_SNIFF;
	f->seen = 0;
	f->watch = (struct loop_fd){ .fd = -1, .ready = on_ready, .arg = f };
	f->timer = (struct loop_timer){ .fire = on_late, .arg = f };
	if (loop_add(l, &f->watch, f->fd, EPOLLIN | EPOLLRDHUP, &e) < 0) {
		flow_refuse(f, e.msg, 0);
		return;
	}
	loop_timer_set(l, &f->timer, f->start_ns + FLOW_SNIFF_MS * CLOCK_MS);
}
