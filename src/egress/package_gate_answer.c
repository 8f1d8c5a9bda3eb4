/* package_gate_answer.c - what a registry is sent and what it answers: headers, statuses,
 * redirects, sizes; see package_gate.h. A registry is not trusted: a redirect is followed by egress
 * itself, and only to hosts of the same registry; a part is never taken for a whole. */
#include "package_gate_base.h"

#include <stdio.h>
#include <string.h>

#include "flow.h"
#include "gateway_end.h"
#include "gateway_judge.h"
#include "gateway_request.h"
#include "package_redirect.h"

#define SHORT_MAX 65536U /* bytes of a body that is no file */

/* ---- limits */

static bool is_file(const struct package_gate *g)
{
	return g->policy != NULL && g->request.kind == PACKAGE_FILE;
}

/* The network policy does not allow what the gate had to fetch. */
static void refuse_fetch(struct package_gate *g, const char *reason)
{
	char why[POLICY_REASON_MAX];

	(void)snprintf(why, sizeof(why), "%s", reason);
	g->result = PACKAGE_REFUSED;
	gateway_defer(g->x);
	gateway_deny(g->x, 403, why);
}

void package_gate_no_view(struct package_gate *g, const struct package_view *v)
{
	if (v->status == 0 && package_gate_may_ask(g))
		package_gate_refuse(g, "mode", v->why);
	else if (v->status == 0)
		package_gate_refuse_new(g);
	else if (v->is_denied)
		refuse_fetch(g, v->why);
	else
		package_gate_fail(g, v->status >= 400 ? v->status : 502, v->why);
}

/* ---- what is sent */

/* Does egress read the answer, or keep a copy of it? Then it must be plain and whole. */
static bool is_read(const struct package_gate *g)
{
	if (g->request.kind == PACKAGE_FILE || g->request.kind == PACKAGE_FILEMETA)
		return g->request.ecosystem != ECO_GIT;
	return package_gate_copies(g);
}

bool package_gate_drops(const struct gateway *x, struct http1_span name)
{
	const struct package_gate *g = x->package;

	if (g->policy == NULL)
		return false;
	if (http1_span_is_nocase(name, "user-agent") || http1_span_is_nocase(name, "referer"))
		return true;
	if (g->redirects > 0 && package_gate_is_credential(name))
		return true;
	/* nothing else is asked, and nothing else is told */
	if (!is_read(g) || http1_span_is_nocase(name, "accept") || package_gate_is_credential(name))
		return false;
	return is_file(g) || !(http1_span_is_nocase(name, "if-none-match") ||
			       http1_span_is_nocase(name, "if-modified-since"));
}

const char *package_gate_headers(const struct gateway *x)
{
	const struct package_gate *g = x->package;

	if (g->policy == NULL)
		return "";
	if (g->request.ecosystem == ECO_GIT) /* servers look for this word */
		return "User-Agent: git/2 (cordon)\r\n";
	if (is_read(g) && !x->plain_answer)
		return "User-Agent: cordon\r\nAccept-Encoding: identity\r\n";
	return "User-Agent: cordon\r\n";
}

bool package_gate_wants_json(const struct gateway *x)
{
	return x->package->request.ecosystem == ECO_NPM;
}

/* ---- what is answered */

static void refuse(struct package_gate *g, const char *why)
{
	gateway_drop_server(g->x);
	package_gate_refuse(g, "registries", why);
}

bool package_gate_leads(struct package_gate *g, const char *location, unsigned *count,
			struct endpoint *to, char target[PACKAGE_REDIRECT_TARGET_MAX])
{
	struct package_hosts hosts;
	char why[POLICY_REASON_MAX];
	bool follows;

	if (package_hosts_copy(&hosts, g->registry, g->x->tls) < 0) {
		gateway_drop_server(g->x);
		package_gate_fail(g, 503, "out of memory");
		return false;
	}
	follows = package_redirect_read(&hosts, location, count, to, target, why);
	package_hosts_release(&hosts);
	if (!follows)
		refuse(g, why);
	return follows;
}

/* Asks the host that the answer leads to, if it is one of the registry's. */
static void follow(struct package_gate *g, const struct http1_response *a)
{
	struct http1_span at = { 0 };
	struct endpoint to = g->x->endpoint;
	char url[HTTP1_TARGET_MAX], target[PACKAGE_REDIRECT_TARGET_MAX];

	(void)http1_find(a->headers, a->headers_n, "location", &at);
	(void)snprintf(url, sizeof(url), "%.*s", at.n < sizeof(url) ? (int)at.n : 0,
		       at.n > 0 ? at.p : "");
	if (package_gate_leads(g, url, &g->redirects, &to, target))
		gateway_request_again(g->x, &to, target);
}

static void count_unknown(struct package_gate *g, int status)
{
	struct package_used *used = &g->x->session->packages;
	bool unknown = status == 404 || status == 410;

	/* The query of a list is counted whatever the answer is: the list exists. */
	if (g->named && !unknown && (g->request.ecosystem != ECO_OCI || g->x->query == NULL))
		used->new_names--;
	else if (!g->named && unknown && g->request.name[0] != '\0')
		used->new_names++;
	g->named = false;
}

static bool is_plain(const struct http1_response *a)
{
	struct http1_span coding;
	size_t n = http1_find(a->headers, a->headers_n, "content-encoding", &coding);

	return n == 0 || (n == 1 && (coding.n == 0 || http1_span_is_nocase(coding, "identity")));
}

static bool is_short(const struct http1_response *a)
{
	return a->framing == HTTP1_NO_BODY ||
	       (a->framing == HTTP1_LENGTH && a->content_length <= SHORT_MAX);
}

/* May an answer with this status go to the cell? Clients take every status below 400 for the file,
 * and only the body of a 200 is hashed. Of a refusal the program needs the head of a 401 alone; a
 * redirect is here only if the URL is a direct one. */
static bool is_answer(const struct package_gate *g, const struct http1_response *a)
{
	if (a->status == 200)
		return true;
	if (a->status == 401 || (package_redirect_is(a->status) && g->registry == NULL))
		return is_short(a);
	return !is_file(g) && (a->status == 304 || a->status >= 400);
}

static void refuse_answer(struct package_gate *g, int status, const char *why)
{
	gateway_drop_server(g->x);
	package_gate_fail(g, status, why);
}

bool package_gate_head(struct gateway *x, const struct http1_response *a)
{
	struct package_gate *g = x->package;
	char why[64];

	if (g->policy == NULL) {
		if (g->request.kind == PACKAGE_FILE && a->status == 200)
			g->result = PACKAGE_DOWNLOADED;
		return true;
	}
	count_unknown(g, a->status);
	if (a->status == 200 && (is_file(g) || g->request.kind == PACKAGE_FILEMETA))
		package_gate_seen_now(g);
	if (package_redirect_is(a->status) && g->registry != NULL &&
	    (x->r.method == HTTP1_GET || x->r.method == HTTP1_HEAD)) {
		follow(g, a);
		return false;
	}
	if (package_redirect_is(a->status) &&
	    (g->expected.alg != DIGEST_NONE || g->origin == PACKAGE_BY_PIN)) {
		refuse(g, "a pinned file is not followed to another host");
		return false;
	}
	if (!is_read(g))
		return true;
	if (!is_answer(g, a)) {
		(void)snprintf(why, sizeof(why), "the registry answered with status %d", a->status);
		refuse_answer(g, a->status >= 400 ? a->status : 502, why);
		return false;
	}
	if (!is_file(g) || a->status != 200)
		return true;
	if (!is_plain(a)) {
		refuse(g, "the registry sent a compressed file, which was not asked for");
		return false;
	}
	return a->framing != HTTP1_LENGTH || package_gate_fits(g, a->content_length);
}
