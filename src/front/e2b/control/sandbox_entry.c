/* sandbox_entry.c - requests into a sandbox. Checks that the sandbox exists (or can be resumed) and
 * that the client may use the port. Requests for envd are answered here (envd.c). The proxy
 * forwards those for any other port to a server in the sandbox. Code for its interpreter gets a
 * record, and its answer is masked (code_call.c).
 *
 * A sandbox that does not exist is answered with 502, as by a gateway whose backend is gone:
 * clients read it as "killed or timed out". */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/execution/dial.h"
#include "daemon/images/build.h"
#include "daemon/session/session_service.h"
#include "daemon/session/session_suspend.h"
#include "daemon/session/session_uses.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/code/code_call.h"
#include "front/e2b/control/sandbox.h"
#include "front/web/reply.h"
#include "lib/base/str.h"
#include "lib/json/json.h"
#include "lib/net/forward.h"

#define GONE "The sandbox was not found"
#define RESUMED_MIN_MS (300ULL * 1000) /* a resumed sandbox lives at least that long */
#define DIAL_ANSWER_MS (600ULL * 1000)
#define HOST_MAX (SANDBOX_HOST_MAX + 16)
#define DROP_MAX 8

/* The state of a request until it has reached envd or a port. forward is freed with it. */
struct entry_request {
	uint16_t port;
	bool tls;
	bool resumed; /* for this request */
	struct sandbox sandbox;
	struct dial dial;
	struct forward *forward;
	struct code_call *code; /* owned. NULL: no code */
	bool admitted;		/* to its ports, by its URL or by a key */
};

/* ---- answers
 *
 * Browsers get a page, programs get JSON. Both name the sandbox. */

/* By the beginning of User-Agent. */
static bool is_browser(const struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span agent;

	if (http1_find(q->headers, q->headers_n, "user-agent", &agent) == 0)
		return false;
	return agent.n >= 8 && memcmp(agent.p, "Mozilla/", 8) == 0;
}

/* The message is a constant and the id was checked: neither needs escaping. */
static void reply_page(struct request *r, int status, const char *message)
{
	bool named = r->session_id[0] != '\0';
	char text[1024];
	int n = snprintf(text, sizeof(text),
			 "<!doctype html><meta charset=\"utf-8\"><title>%d</title>"
			 "<h1>%s</h1>%s%s%s\n",
			 status, message, named ? "<p>Sandbox <code>" : "", r->session_id,
			 named ? "</code></p>" : "");

	exchange_reply(r->x, status, "text/html; charset=utf-8", text,
		       n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* port 0: the member is left out. */
static void reply_failure(struct request *r, int status, const char *message, unsigned port)
{
	char text[512 + 6 * sizeof(((struct err *)NULL)->msg)];
	struct json j;

	if (is_browser(r) && strpbrk(message, "<>&") == NULL) {
		reply_page(r, status, message);
		return;
	}
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	if (r->session_id[0] != '\0')
		json_text(&j, "sandboxId", r->session_id);
	json_text(&j, "message", message);
	if (port > 0)
		json_uint(&j, "port", port);
	json_int(&j, "code", status);
	json_close(&j, '}');
	exchange_reply(r->x, status, "application/json; charset=utf-8", j.text, j.len);
}

/* A starting server does not know its sandboxes so far. */
void sandbox_entry_gone(struct request *r)
{
	if (core_recovered(r->core)) {
		reply_failure(r, 502, GONE, 0);
		return;
	}
	exchange_header(r->x, "Retry-After", "1");
	reply_failure(r, 503, "The server is starting, try again", 0);
}

/* Every failure that means a missing sandbox has the one answer for it. */
static void sandbox_entry_fail(struct request *r, const struct failure *f)
{
	if (f->status == 404 || f->status == 410)
		sandbox_entry_gone(r);
	else
		reply_failure(r, f->status, f->message, 0);
}

const struct dialect sandbox_entry_dialect = { .interface = "e2b", .fail = sandbox_entry_fail };

void sandbox_entry_refuse(struct e2b *b, struct exchange *x, const char *why)
{
	struct request *r = request_new(b->core, x, &sandbox_entry_dialect, b);

	if (r != NULL)
		reply_code(r, 400, "invalid", why);
}

/* ---- ports
 *
 * open_port() dials the port in the cell. on_connected() hands the connection to forward, the
 * proxy, which lives until the request ends. */

/* In this order: the record of code, the proxy, the dial. */
static void sandbox_entry_release(struct request *r, bool answered)
{
	struct entry_request *g = r->state;

	code_call_free(g->code, answered);
	forward_free(g->forward);
	dial_cancel(&g->dial);
}

/* The server in the cell gave no answer to pass on. */
static void on_forward_failure(struct exchange *x, int status, const char *why)
{
	struct request *r = request_of(x);
	struct entry_request *g = r->state;

	if (g->code != NULL)
		code_call_unanswered(g->code);
	if (session_find(r->core, r->session_id) == NULL)
		sandbox_entry_gone(r);
	else
		reply_failure(r, status, why, 0);
}

/* maskRequestHost, with the port in place of "${PORT}". */
static void mask_host(const struct entry_request *g, char ret[HOST_MAX])
{
	static const char place[] = "${PORT}";
	const char *mask = g->sandbox.mask_host, *at = strstr(mask, place);

	if (at == NULL)
		str_copy_to(ret, HOST_MAX, mask);
	else
		(void)snprintf(ret, HOST_MAX, "%.*s%u%s", (int)(at - mask), mask, g->port,
			       at + sizeof(place) - 1);
}

/* Is it an API key of this server, or "Bearer" and one? */
static bool is_key(struct http1_span value)
{
	static const char prefix[] = "e2b_";
	size_t n = sizeof(prefix) - 1;

	return value.n >= TENANT_KEY_LEN &&
	       memcmp(value.p + value.n - TENANT_KEY_LEN, prefix, n) == 0;
}

/* Does an x-access-token bring the sandbox's own token? */
static bool has_token(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);

	for (size_t i = 0; i < q->headers_n; i++)
		if (http1_span_is_nocase(q->headers[i].name, "x-access-token") &&
		    token_check(&e2b_of(r)->key, TOKEN_ENVD, r->session_id, q->headers[i].value))
			return true;
	return false;
}

/* Names of headers to withhold from the server in the cell: those that name the sandbox, and a
 * tenant's API key or the sandbox's access token, which clients may send with every request. Keys
 * of other kinds may be meant for that server. plain: a masked answer must not be compressed. */
static void choose_drop(struct request *r, bool plain, const char *ret[DROP_MAX])
{
	const struct http1_request *q = exchange_request(r->x);

	static const char *const always[] = { "e2b-sandbox-id", "e2b-sandbox-port",
					      "e2b-traffic-access-token" };
	static const char *const keyed[] = { "authorization", "x-api-key" };
	size_t n = 0;

	for (size_t i = 0; i < COUNT(always); i++)
		ret[n++] = always[i];
	for (size_t k = 0; k < COUNT(keyed); k++) {
		bool found = false;

		for (size_t i = 0; i < q->headers_n; i++)
			found = found || (http1_span_is_nocase(q->headers[i].name, keyed[k]) &&
					  is_key(q->headers[i].value));
		if (found)
			ret[n++] = keyed[k];
	}
	if (has_token(r))
		ret[n++] = "x-access-token";
	if (plain)
		ret[n++] = "accept-encoding";
	ret[n] = NULL;
}

/* By what a client may use the port. */
static const char *admitted_by(const struct request *r, const struct entry_request *g)
{
	if (g->sandbox.public_traffic)
		return "public";
	if (!g->admitted)
		return "token";
	return r->grant.opening[0] == '\0' ? "key" : "url";
}

/* The first use of the port by this client in this hour is on record, before bytes pass. */
static int note_use(struct request *r, struct entry_request *g, struct err *e)
{
	struct session *s = session_find(r->core, r->session_id);
	const struct store_actor *who = request_actor(r);
	const char *by = admitted_by(r, g);
	const struct audit_record record = { .tenant = tenant_row(r->tenant)->id,
					     .session = r->session_id,
					     .type = "port.used",
					     .actor = who };
	const char *what[3] = { by };
	char port[8], client[STORE_ID_MAX + sizeof(who->address) + 1];
	uint64_t more;

	(void)snprintf(port, sizeof(port), "%u", g->port);
	(void)snprintf(client, sizeof(client), "%s %s", who->key_id, who->address);
	what[1] = port;
	what[2] = client;
	if (s == NULL || !session_uses_first(s, SESSION_USES_PORTS, what, &more))
		return 0;
	return audit_append(core_audit(r->core), &record, e, "port\t%s\nby\t%s\nunrecorded\t%llu\n",
			    port, by, (unsigned long long)more);
}

/* Without a listener at the port the answer is 502, in E2B's words. */
static void on_connected(struct dial *d, int fd, const struct err *why)
{
	const char *drop[DROP_MAX];
	struct request *r = d->arg;
	struct entry_request *g = r->state;
	struct forward_options o = { .drop = drop,
				     .scheme = g->tls ? "https" : "http",
				     .answer_ms = DIAL_ANSWER_MS,
				     .on_failure = on_forward_failure };
	char host[HOST_MAX];
	struct err e = { 0 };

	if (why != NULL && (why->code == ERR_NOT_FOUND || why->sys == ETIMEDOUT)) {
		reply_failure(r, 502, "The sandbox is running but port is not open", g->port);
		return;
	}
	if (why != NULL) {
		reply_error(r, why);
		return;
	}
	if (note_use(r, g, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (g->sandbox.mask_host[0] != '\0') {
		mask_host(g, host);
		o.host = host;
	}
	choose_drop(r, g->code != NULL, drop);
	if (g->code != NULL)
		code_call_options(g->code, &o);
	g->forward = forward_new(core_loop(r->core), r->x, fd, &o, &e);
	if (g->code != NULL)
		code_call_forwarded(g->code, g->forward);
	if (g->forward == NULL)
		reply_error(r, &e);
}

/* With access by a token, a URL or a key the connection counts for the tenant. */
static bool traffic_allowed(struct request *r, const struct entry_request *g)
{
	static const char missing[] = "Sandbox is secured with traffic access token. Token header "
				      "'e2b-traffic-access-token' is missing";
	static const char wrong[] = "Sandbox is secured with traffic access token. Token header "
				    "'e2b-traffic-access-token' is invalid";
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span token;
	size_t n;

	if (g->sandbox.public_traffic)
		return true;
	if (g->admitted) {
		exchange_set_account(r->x, tenant_account(r->tenant), true);
		return true;
	}
	n = http1_find(q->headers, q->headers_n, "e2b-traffic-access-token", &token);
	if (n == 1 && token_check(&e2b_of(r)->key, TOKEN_TRAFFIC, r->session_id, token)) {
		exchange_set_account(r->x, tenant_account(r->tenant), true);
		return true;
	}
	reply_failure(r, 403, n == 0 ? missing : wrong, 0);
	return false;
}

/* E2B's code interpreter refuses a wrong access token, but clients may send none. The interpreter
 * in the cell does not know the token. */
static bool interpreter_admits(struct request *r, const struct entry_request *g, struct session *s)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span token;
	size_t n;

	if (g->port != CODE_CALL_PORT || !g->sandbox.secure || !session_service_has_interpreter(s))
		return true;
	n = http1_find(q->headers, q->headers_n, "x-access-token", &token);
	if (n == 0 || (n == 1 && token_check(&e2b_of(r)->key, TOKEN_ENVD, r->session_id, token)))
		return true;
	reply_failure(r, 401, "The access token does not match", g->port);
	return false;
}

/* A request held open keeps the sandbox from being idle. */
static void open_port(struct request *r, struct session *s)
{
	struct entry_request *g = r->state;

	r->release = sandbox_entry_release;
	if (code_call_is(r, s, g->port)) {
		g->code = code_call_new(r);
		if (g->code == NULL) {
			reply_failure(r, 503, "out of memory", 0);
			return;
		}
	}
	request_hold(r, s);
	g->dial = (struct dial){ .on_done = on_connected, .arg = r };
	dial_start(s, g->port, &g->dial);
}

/* ---- the sandbox
 *
 * sandbox_entry_handle() checks in this order: the sandbox exists, the tenant has room, the sandbox
 * runs or may be resumed, the client may use the port. Nothing in the cell happens before. */

/* Does the request bring a key of the session's tenant that may run code in it? Then it ends when
 * the key is revoked. */
static bool has_key(struct request *r, const struct session *s)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span key = { 0 };
	struct grant grant = { 0 };
	unsigned scopes = 0;
	struct err e;

	if (http1_find(q->headers, q->headers_n, "x-api-key", &key) != 1 ||
	    tenant_authenticate(r->core, key.p, key.n, &scopes, &grant, &e) != session_tenant(s) ||
	    (scopes & TENANT_SESSIONS) == 0)
		return false;
	r->grant = grant;
	r->scopes = scopes;
	return true;
}

/* Does it come by the URL of an open port? Then it ends when the port is closed. */
static bool has_url(struct request *r, const struct session *s, uint16_t port, const char *token)
{
	char opening[SESSION_PORTS_OPENING];

	if (!port_url_is_token(e2b_of(r)->port_key, session_row(s), port, token, opening))
		return false;
	str_copy(r->grant.opening, opening);
	return true;
}

/* The sandbox runs now. envd's handlers have states of their own. */
static void on_session(struct request *r, struct session *s)
{
	struct entry_request *g = r->state;
	struct err e = { 0 };

	if (g->resumed) { /* its old timeout has ended. It gets its first timeout again, as with
			   *E2B */
		uint64_t ms = g->sandbox.timeout_ms;

		if (session_extend(s, ms > RESUMED_MIN_MS ? ms : RESUMED_MIN_MS, request_actor(r),
				   &e) < 0 &&
		    session_extend(s, ms, request_actor(r), &e) < 0) {
			reply_error(r, &e);
			return;
		}
	}
	if (g->port != E2B_ENVD_PORT) {
		open_port(r, s);
		return;
	}
	free(r->state);
	r->state = NULL;
	envd_handle(r);
}

/* Traffic does not boot a sandbox paused without its memory. A persistent session, which stops when
 * idle, is booted. */
static bool sandbox_entry_wakes(const struct entry_request *g, const struct store_session *row)
{
	return row->cold == COLD_NO || row->cold == COLD_MEMORY ? g->sandbox.auto_resume
								: row->keep_ms > 0;
}

/* Is it up, or may this request resume it? Answer if not. */
static bool may_enter(struct request *r, struct entry_request *g, const struct store_session *row)
{
	enum session_state state = (enum session_state)row->state;

	if (state != SESSION_PAUSING && state != SESSION_PAUSED)
		return true;
	g->resumed = sandbox_entry_wakes(g, row);
	if (!g->resumed)
		sandbox_entry_gone(r);
	return g->resumed;
}

void sandbox_entry_handle(struct e2b *b, struct exchange *x, const char *id, uint16_t port,
			  const char *token, bool tls)
{
	struct request *r = request_new(b->core, x, &sandbox_entry_dialect, b);
	struct err e = { 0 };
	struct session *s;
	struct entry_request *g;

	if (r == NULL)
		return;
	str_copy(r->session_id, id);
	g = request_state(r, sizeof(*g), NULL);
	if (g == NULL)
		return;
	g->port = port;
	g->tls = tls;
	s = session_find(b->core, id);
	/* No key is asked for here, and a session of a build is no sandbox of any client. */
	if (s == NULL || build_has_session(session_row(s))) {
		sandbox_entry_gone(r);
		return;
	}
	r->tenant = session_tenant(s);
	sandbox_read(session_row(s), &g->sandbox);
	g->admitted = port != E2B_ENVD_PORT && !g->sandbox.public_traffic &&
		      (has_url(r, s, port, token) || has_key(r, s));
	if (request_count(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	r->no_resume = !sandbox_entry_wakes(g, session_row(s));
	/* A client without access must not resume the sandbox, nor keep it from being paused. */
	if (may_enter(r, g, session_row(s)) &&
	    (port == E2B_ENVD_PORT ? envd_admits(r, g->resumed)
				   : traffic_allowed(r, g) && interpreter_admits(r, g, s)))
		request_use(r, on_session);
}
