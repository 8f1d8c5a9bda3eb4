/* gateway_judge.c - asks the policy about a request. Asked again when the policy changes during the
 * request. */
#include "egress/gateway/gateway_judge.h"

#include "lib/http/hop.h"

/* Headers of the connection that egress writes itself for the same request: rules may compare them,
 * though they are not sent on as they came. */
static bool is_rewritten(struct http1_span name)
{
	return http1_span_is_nocase(name, "content-length") ||
	       http1_span_is_nocase(name, "transfer-encoding") ||
	       http1_span_is_nocase(name, "upgrade");
}

/* The headers that rules may compare: not those that Connection names, which no server gets. ret
 * has room for HTTP1_HEADERS_MAX. */
static size_t judged_headers(const struct gateway *x, struct http1_header *ret)
{
	const struct hop hop = hop_of(x->r.headers, x->r.headers_n);
	size_t n = 0;

	for (size_t i = 0; i < hop.n; i++)
		if (is_rewritten(hop.at[i].name) || !hop_is(&hop, hop.at[i].name))
			ret[n++] = hop.at[i];
	return n;
}

bool gateway_judge(struct gateway *x)
{
	static struct http1_header judged[HTTP1_HEADERS_MAX]; /* too large for the stack */
	struct policy_target to = endpoint_target(&x->endpoint);
	struct policy_request q = { .tls = x->tls,
				    .method = x->method,
				    .path = x->path,
				    .query = x->query,
				    .headers = judged,
				    .nheaders = judged_headers(x, judged),
				    .websocket = x->r.upgrade_websocket };
	struct policy_answer a = { 0 };

	policy_ask(x->session->policy, &to, &q, &a);
	x->rule = a.rule;
	x->inspected = a.inspected;
	x->by_registry = a.by_registry;
	x->allowed = a.verdict == POLICY_PERMIT;
	if (!x->allowed)
		gateway_set_reason(x, a.reason);
	return x->allowed;
}

/* host: a name that the program sent over a connection to an address. */
static void know_by_name(struct gateway *x, const char *host)
{
	struct policy_target to = endpoint_target(&x->endpoint);

	to.host = host;
	if (host[0] && secrets_known_also(x->session->secrets, x->session->policy,
					  &x->session->sent, &to, &x->known_secrets))
		x->server_knows = true;
}

void gateway_find_known(struct gateway *x)
{
	struct policy_target to = endpoint_target(&x->endpoint);
	struct endpoint named = { 0 };
	const char *why;

	x->server_knows = secrets_known_there(x->session->secrets, x->session->policy,
					      &x->session->sent, &to, &x->known_secrets);
	if (x->endpoint.host[0])
		return;
	know_by_name(x, x->flow->sni);
	if (x->r.host.n > 0 &&
	    endpoint_read(x->session->names, x->r.host, x->endpoint.port, &named, &why) == 0)
		know_by_name(x, named.host);
}
