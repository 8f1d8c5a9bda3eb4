/* gateway_server.c - gets the connection to a server: an idle one, or a new one. */
#include "egress/gateway/gateway_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "egress/control/session_outbound.h"
#include "egress/gateway/gateway_end.h"
#include "lib/base/clock.h"

/* Two requests may share a connection only if their keys are the same. */
static void make_key(const struct gateway *x, struct upstream_key *ret)
{
	char name[HOST_MAX];

	*ret = (struct upstream_key){ .tls = x->tls,
				      .by_ip = !x->endpoint.host[0],
				      .ip = x->endpoint.ip,
				      .port = x->endpoint.port };
	endpoint_name(&x->endpoint, name);
	/* A connection to an address, with a name in the SNI: the certificate must be for that
	 * name. */
	if (ret->by_ip && x->tls && x->flow->sni[0])
		memcpy(ret->host, x->flow->sni, sizeof(ret->host));
	else
		memcpy(ret->host, name, sizeof(ret->host));
}

static void send_head(struct gateway *x)
{
	size_t n = x->ask.len;
	char at[IP_TEXT_MAX];

	if (gateway_bytes_left(x, LIMIT_OUT, n) < n) {
		gateway_limit_reached(x, LIMIT_OUT);
		return;
	}
	if (*secrets_use_here(&x->use) != '\0') { /* it may be asked again by its address */
		ip_format(&x->up->at, at);
		secrets_sent_add(&x->session->sent, at, secrets_use_here(&x->use));
	}
	x->state = GATEWAY_EXCHANGE;
	gateway_wait(x, GATEWAY_ANSWER_MS);
	gateway_stream_add(&x->up->stream, x->ask.data, n);
	if (!x->retriable) /* it includes a collected body */
		buf_release(&x->ask);
	gateway_count_bytes(x, LIMIT_OUT, n);
}

static void on_connected(struct outbound *o, int fd, const struct ip *ip, const struct err *e)
{
	struct gateway *x = o->arg;
	struct upstream_key key;
	struct err failed = { 0 };

	gateway_defer(x);
	if (fd < 0) {
		if (e->code == ERR_DENIED)
			gateway_deny(x, 403, e->msg);
		else
			gateway_fail(x, e->code == ERR_SYSTEM && e->sys == ETIMEDOUT ? 504 : 502,
				     e->msg);
		return;
	}
	make_key(x, &key);
	x->up = upstream_new(x->loop, &key, fd, ip, &failed);
	if (!x->up) {
		gateway_fail(x, 502, failed.msg);
		return;
	}
	gateway_stream_watch(&x->up->stream, x->cell.on_ready, x);
	if (x->tls && gateway_stream_secure(&x->up->stream, x->session->egress->server_tls,
					    key.host, &failed) < 0)
		gateway_fail(x, 502, failed.msg);
	else
		gateway_wait(x, GATEWAY_HANDSHAKE_MS);
}

/* fresh: an idle connection has just failed, and another one may fail as well. */
void gateway_dial(struct gateway *x, bool fresh)
{
	struct policy_target to = endpoint_target(&x->endpoint);
	struct upstream_key key;

	make_key(x, &key);
	if (!fresh)
		x->up = idle_conns_take(x->session->idle_conns, &key,
					x->retriable ? 0 : GATEWAY_YOUNG_MS * CLOCK_MS);
	if (x->up) {
		gateway_stream_watch(&x->up->stream, x->cell.on_ready, x);
		send_head(x);
		return;
	}
	x->state = GATEWAY_DIAL;
	gateway_wait(x, GATEWAY_ANSWER_MS); /* outbound.c has a shorter deadline of its own */
	x->outbound = (struct outbound){ .on_done = on_connected, .arg = x };
	session_outbound(x->session, &to, &x->outbound);
}

bool gateway_dial_step(struct gateway *x)
{
	struct err e = { 0 };
	char why[sizeof(x->reason)];
	int done;

	if (!x->up)
		return false;
	if (x->tls && !resource_share_turn_handshake(&x->session->share)) {
		gateway_defer(x); /* other sessions first */
		return false;
	}
	done = gateway_stream_handshake(&x->up->stream, &e);
	if (done == 0)
		return false;
	if (done > 0) {
		send_head(x);
		return true;
	}
	if (e.code == ERR_DENIED)
		(void)snprintf(why, sizeof(why), "certificate of %.100s does not verify: %.180s",
			       x->up->key.host, e.msg);
	else
		(void)snprintf(why, sizeof(why), "TLS with %.100s: %.200s", x->up->key.host, e.msg);
	gateway_fail(x, 502, why);
	return true;
}

void gateway_server_lost(struct gateway *x)
{
	char why[sizeof(x->reason)], name[HOST_MAX];

	if (!x->answer_began && x->up->served > 0 && x->retriable) {
		upstream_free(x->up);
		x->up = NULL;
		gateway_dial(x, true);
		return;
	}
	endpoint_name(&x->endpoint, name);
	(void)snprintf(why, sizeof(why), "%s closed the connection before its answer was complete",
		       name);
	gateway_fail(x, 502, why);
}
