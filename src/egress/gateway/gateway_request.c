/* gateway_request.c - theory of operation
 *
 * The head is copied out of the stream, so that it stays valid while the body moves and the policy
 * may be asked again. Then these are checked, in this order: is it well-formed. Is its host that of
 * the connection. Has its path a normal form. Does the policy allow it. Is it within the limits. A
 * request that passes all of them is written again for the server. No check relies on an earlier
 * request on the same connection. */
#include "egress/gateway/gateway_request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "egress/control/session_limits.h"
#include "egress/gateway/gateway_body.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_head.h"
#include "egress/gateway/gateway_judge.h"
#include "egress/gateway/gateway_server.h"
#include "egress/gateway/llm_call.h"
#include "lib/base/clock.h"
#include "lib/policy/path.h"

/* ---- its host */

static int endpoint_of_proxy(struct gateway *x, const char **ret_why)
{
	const struct http1_request *r = &x->r;

	*ret_why =
		"the proxy accepts CONNECT as the first request, or a URL that begins with http://";
	if (r->form != HTTP1_ABSOLUTE || strncasecmp(r->target.p, "http://", 7) != 0)
		return -1;
	if (endpoint_read(x->session->names, r->authority, 80, &x->endpoint, ret_why) < 0)
		return -1;
	*ret_why = "no host name has this address (any more): resolve the name again";
	return x->endpoint.no_name ? -1 : 0;
}

/* A request over a connection to a name must be for that name. Over a connection to an address it
 * may name any host: the policy judges the address. */
static int endpoint_of_flow(struct gateway *x, const char **ret_why)
{
	const struct http1_request *r = &x->r;
	struct endpoint named;
	bool ported;

	x->endpoint = x->flow->endpoint;
	*ret_why = "CONNECT is accepted by the proxy only";
	if (r->form == HTTP1_AUTHORITY)
		return -1;
	*ret_why = "the scheme of the target differs from that of the connection";
	if (r->form == HTTP1_ABSOLUTE &&
	    strncasecmp(r->target.p, x->tls ? "https://" : "http://", x->tls ? 8 : 7) != 0)
		return -1;
	if (r->host.n == 0) /* HTTP/1.0 */
		return 0;
	if (endpoint_read(x->session->names, r->host, x->endpoint.port, &named, ret_why) < 0)
		return -1;
	ported = named.port == x->endpoint.port;
	*ret_why = "the host of the request differs from that of the connection";
	return ported && (!x->endpoint.host[0] || endpoint_same(&named, &x->endpoint)) ? 0 : -1;
}

/* ---- its method, path and query */

static void put_text(struct buf *b, const char *text, size_t n)
{
	if (n > 0)
		buf_put(b, text, n);
	buf_put(b, "", 1);
}

/* Is it "post", for example? Servers differ in what they make of it, and its framing may be another
 * one. */
static bool is_misspelled(const struct http1_request *r)
{
	for (int m = HTTP1_OTHER + 1; m < HTTP1_METHODS; m++)
		if (r->method == HTTP1_OTHER &&
		    http1_span_is_nocase(r->method_name, http1_method_name((enum http1_method)m)))
			return true;
	return false;
}

/* Copy method, path and query, in their normal forms, to x->text. */
static int take_names(struct gateway *x, const char **ret_why)
{
	static char path[PATH_NORMAL_MAX], query[PATH_NORMAL_MAX];
	const struct http1_request *r = &x->r;
	int npath = 1, nquery = 0;
	struct err e;

	*ret_why = "the method is not in upper case";
	if (is_misspelled(r))
		return -1;
	if (r->form == HTTP1_ASTERISK)
		memcpy(path, "*", 2);
	else
		npath = path_normal(r->path, path, sizeof(path), ret_why);
	if (npath < 0)
		return -1;
	if (r->query.p)
		nquery = path_normal_query(r->query, query, sizeof(query), ret_why);
	if (nquery < 0)
		return -1;
	put_text(&x->text, r->method_name.p, r->method_name.n);
	put_text(&x->text, path, (size_t)npath);
	put_text(&x->text, query, (size_t)nquery);
	*ret_why = "out of memory";
	if (buf_check(&x->text, &e) < 0)
		return -1;
	x->method = (const char *)x->text.data;
	x->path = x->method + r->method_name.n + 1;
	x->query = r->query.p ? x->path + npath + 1 : NULL;
	return 0;
}

/* ---- policy and limits */

/* The connection was let through only to be told why it is refused. */
static bool is_refused_flow(struct gateway *x)
{
	return !x->flow->to_proxy && x->flow->answer.verdict == POLICY_REFUSE;
}

/* The lower one of the two bounds for a body counts. False: the request has its answer. */
static bool is_within_limits(struct gateway *x)
{
	uint64_t max = x->rule ? x->rule->limits.body_bytes : 0;
	uint64_t all = policy_limits(x->session->policy)->body_bytes;
	const char *why;

	if (all > 0 && (max == 0 || all < max))
		max = all;
	if (!flow_count_by(x->flow, x->rule, &why) ||
	    !session_limits_request(x->session, x->rule, &why)) {
		gateway_deny(x, 429, why);
		return false;
	}
	if (!session_limits_any_left(x->session, x->rule, &why)) {
		gateway_deny(x, 403, why);
		return false;
	}
	if (max > 0 && x->r.framing == HTTP1_LENGTH && x->r.content_length > max) {
		gateway_deny(x, 413, "the body is larger than the policy allows");
		return false;
	}
	gateway_body_begin(&x->out, x->r.framing, x->r.content_length, max > 0 ? max : UINT64_MAX);
	return true;
}

/* ---- sending it on */

/* May it be sent again, if the server has closed the idle connection it was sent on? */
static bool is_retriable(const struct gateway *x)
{
	switch (x->r.method) {
	case HTTP1_GET:
	case HTTP1_HEAD:
	case HTTP1_OPTIONS:
	case HTTP1_TRACE:
	case HTTP1_PUT:
	case HTTP1_DELETE:
		return x->out.done;
	case HTTP1_OTHER:
	case HTTP1_POST:
	case HTTP1_PATCH:
	case HTTP1_CONNECT:
	case HTTP1_METHODS:
		break;
	}
	return false;
}

static void use_secrets(struct gateway *x)
{
	struct http1_span type = { 0 };

	secrets_use_next(&x->use, &(struct secrets_use){ .host = x->endpoint.host,
							 .method = x->method,
							 .path = x->path,
							 .rule = x->rule,
							 .verified_tls = x->tls,
							 .now_ms = clock_wall_ms() });
	gateway_find_known(x);
	x->plain_answer = x->server_knows || (x->rule && x->rule->nsecrets > 0);
	(void)http1_find(x->r.headers, x->r.headers_n, "content-type", &type);
	x->collects = x->tls && !x->out.done &&
		      (x->r.framing != HTTP1_LENGTH || x->r.content_length <= SECRETS_BODY_MAX) &&
		      secrets_wants_body(x->session->secrets, &x->use, type);
}

/* Write the head for the server, when all of it is known, and dials. */
static void send_on(struct gateway *x)
{
	const char *why = "the head of the request cannot be written";

	if (gateway_head_request(x, &why) < 0) {
		gateway_fail(x, 400, why);
		return;
	}
	if (x->endpoint.host[0])
		secrets_sent_add(&x->session->sent, x->endpoint.host, secrets_use_here(&x->use));
	x->retriable = is_retriable(x);
	gateway_dial(x, false);
}

void gateway_proceed(struct gateway *x)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (x->rule && x->rule->class == POLICY_MODEL)
		x->model = llm_call_new(x->path, x->rule->prompts);
	use_secrets(x);
	if (!x->collects) {
		send_on(x);
		return;
	}
	x->state = GATEWAY_COLLECT;
	gateway_wait(x, GATEWAY_ANSWER_MS);
	if (x->r.expect_continue)
		gateway_stream_add(&x->cell, go_on, sizeof(go_on) - 1);
}

/* Take the head out of the stream, and read it. */
static int take_head(struct gateway *x, size_t n, struct http1_fault *fault)
{
	struct err e;

	x->has_request = true;
	x->start_ns = loop_now_ns(x->loop);
	x->endpoint = x->flow->endpoint;
	x->out = x->in = (struct gateway_body){ 0 };
	x->r.headers_n = 0;
	x->r.keep_alive = false;
	x->r.method = HTTP1_OTHER;
	*fault = (struct http1_fault){ 503, "out of memory" };
	if (buf_add(&x->head, fifo_bytes(&x->cell.in), n, &e) < 0)
		return -1;
	fifo_consume(&x->cell.in, n);
	x->scanned = 0;
	if (http1_request_read((char *)x->head.data, n, &x->r, fault) > 0)
		return 0;
	x->r.headers_n = 0;
	x->r.keep_alive = false;
	x->r.method = HTTP1_OTHER;
	return -1;
}

static void begin_request(struct gateway *x, size_t n)
{
	struct http1_fault fault;
	const char *why = "";

	if (take_head(x, n, &fault) < 0) {
		gateway_fail(x, fault.status, fault.words);
		return;
	}
	x->out.done = x->r.framing == HTTP1_NO_BODY ||
		      (x->r.framing == HTTP1_LENGTH && x->r.content_length == 0);
	if (take_names(x, &why) < 0) {
		gateway_fail(x, 400, why);
		return;
	}
	if (is_refused_flow(x)) {
		x->r.keep_alive = false;
		x->rule = x->flow->answer.rule;
		x->by_registry = x->flow->answer.by_registry;
		if (!x->session->egress->package_refused(x, x->flow->answer.reason))
			gateway_deny(x, 403, x->flow->answer.reason);
		return;
	}
	if ((x->flow->to_proxy ? endpoint_of_proxy(x, &why) : endpoint_of_flow(x, &why)) < 0) {
		x->r.keep_alive = false;
		gateway_deny(x, x->r.form == HTTP1_AUTHORITY ? 400 : 403, why);
		return;
	}
	if (!gateway_judge(x)) {
		if (!x->session->egress->package_refused(x, x->reason))
			gateway_deny(x, 403, x->reason);
	} else if (is_within_limits(x) && !x->session->egress->package_begin(x)) {
		gateway_proceed(x);
	}
}

void gateway_request(struct gateway *x, size_t n)
{
	uint64_t since_ns = resource_share_cpu_ns();

	begin_request(x, n);
	resource_share_turn_worked(&x->session->share, since_ns);
}

/* Set path and query from a target. The method stays. */
static int gateway_request_retarget(struct gateway *x, const char *target, const char **ret_why)
{
	struct http1_span path = { target, strcspn(target, "?#") }, query = { 0 };
	const char *mark = target[path.n] == '?' ? target + path.n + 1 : NULL;

	*ret_why = "the target of a redirect is malformed";
	if (!http1_is_target(target, path.n) || path.n == 0)
		return -1;
	if (mark != NULL)
		query = (struct http1_span){ mark, strcspn(mark, "#") };
	if (query.n > 0 && !http1_is_target(query.p, query.n))
		return -1;
	x->r.path = path;
	x->r.query = query;
	x->r.form = HTTP1_ORIGIN;
	buf_clear(&x->text);
	return take_names(x, ret_why);
}

void gateway_request_again(struct gateway *x, const struct endpoint *to, const char *target)
{
	const char *why;

	gateway_drop_server(x);
	llm_call_free(x->model); /* gateway_proceed() makes another one */
	x->model = NULL;
	x->answer_began = false;
	x->up_scanned = 0;
	x->endpoint = *to;
	if (gateway_request_retarget(x, target, &why) < 0)
		gateway_fail(x, 502, why);
	else if (!gateway_judge(x))
		gateway_deny(x, 403, x->reason);
	else
		gateway_proceed(x);
}

/* ---- collected bodies */

/* A body is read as JSON, searched for placeholders and copied in one turn: as much work as moving
 * so many times its bytes. */
#define BODY_WEIGHT 16

/* Add one piece. False if it does not fit. */
static bool collect_piece(struct gateway *x, const void *data, size_t n)
{
	struct err e;

	return buf_add(&x->collected, data, n, &e) == 0;
}

/* 1: complete. 0: more is to come. -1: malformed, or out of memory. 2: too long to be collected.
 */
static int collect_more(struct gateway *x)
{
	struct gateway_body *b = &x->out;
	struct fifo *in = &x->cell.in;

	while (!b->done && in->len > 0) {
		struct http1_span data = { (char *)fifo_bytes(in), in->len };
		size_t used = 0;

		if (b->framing == HTTP1_CHUNKED) {
			switch (chunk_read(&b->chunk, fifo_bytes(in), in->len, &used, &data)) {
			case CHUNK_MORE:
				fifo_consume(in, used);
				return 0;
			case CHUNK_END:
				fifo_consume(in, used);
				b->done = true;
				return 1;
			case CHUNK_BAD:
			case CHUNK_TOO_LONG:
				return -1;
			case CHUNK_DATA:
				fifo_consume(in, used);
				break;
			}
		} else if (data.n > b->left) {
			data.n = (size_t)b->left;
		}
		if (data.n > SECRETS_BODY_MAX - x->collected.len)
			return 2;
		if (!collect_piece(x, data.p, data.n))
			return -1;
		if (b->framing == HTTP1_CHUNKED)
			chunk_took(&b->chunk, data.n);
		else
			b->left -= data.n;
		b->done = b->framing == HTTP1_LENGTH && b->left == 0;
		fifo_consume(in, data.n);
		resource_share_turn_moved(&x->session->share, data.n);
	}
	return b->done ? 1 : 0;
}

/* False: out of memory. */
static bool put_secrets(struct gateway *x)
{
	struct http1_span type = { 0 };
	OWN_MEM uint8_t *changed = NULL;
	struct err e;
	int n, added;

	(void)http1_find(x->r.headers, x->r.headers_n, "content-type", &type);
	n = secrets_body(x->session->secrets, &x->use, type, x->collected.data, x->collected.len,
			 &changed);
	if (n <= 0 || !changed)
		return true;
	buf_release(&x->collected);
	buf_init(&x->collected, (size_t)n);
	x->collected.secret = true;
	added = buf_add(&x->collected, changed, (size_t)n, &e);
	explicit_bzero(changed, (size_t)n);
	return added == 0;
}

void gateway_collect(struct gateway *x)
{
	int got = collect_more(x);

	if (got == 0 && x->cell.ended) {
		gateway_client_gone(x);
		return;
	}
	if (got == 0)
		return;
	if (got < 0) {
		gateway_fail(x, 400, "the body of the request is malformed, or too long");
		return;
	}
	resource_share_turn_moved(&x->session->share, BODY_WEIGHT * x->collected.len);
	if (x->model && x->collected.len > 0)
		llm_call_request(x->model, x->collected.data, x->collected.len);
	if (got == 1 && !put_secrets(x))
		gateway_fail(x, 503, "out of memory");
	else
		send_on(x);
}
