/* package_gate.c - theory of operation
 *
 * A request is recognised by its host, path and method alone (package_request.h). An unknown
 * request at a registry's host is refused. Then the policy is asked about the name, before anything
 * is asked upstream, so that a refused name is sent to no server (but for gems, whose client shows
 * the refusal of a file only). An allowed request takes the way of its kind: metadata to
 * package_gate_meta.c, files to package_gate_file.c, all else to the server as it is.
 *
 * Without a packages member in the policy nothing is judged. Requests to well-known registries get
 * a gate that only writes the record. */
#include "egress/packages/package_gate_base.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/control/advisory_list.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_file.h"
#include "egress/gateway/gateway_judge.h"
#include "egress/gateway/gateway_request.h"
#include "egress/gateway/gateway_tap.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

/* ---- the limits of a session: bytes, and names that registries may
 * not have. See package_gate_base.h. */

#define WORK_BYTES ((uint64_t)512 * 1024) /* that a piece of work counts as, in a turn */

/* ---- bytes */

/* Files count against the limits of the policy. */
bool package_gate_may_work(struct package_gate *g)
{
	struct resource_share *share = &g->x->session->share;

	if (resource_share_turn_left(share) == 0)
		return false;
	resource_share_turn_moved(share, WORK_BYTES);
	return true;
}

void package_gate_set_budget(struct package_gate *g)
{
	const struct packages_limits *l = packages_limits(g->policy);

	g->x->budget = (struct gateway_budget){ .counts = g->request.kind == PACKAGE_FILE,
						.all = l->bytes,
						.file = l->file_bytes };
}

/* max 0: no bound. */
static uint64_t gate_limits_under(uint64_t used, uint64_t max)
{
	if (max == 0)
		return UINT64_MAX;
	return used < max ? max - used : 0;
}

bool package_gate_fits(struct package_gate *g, uint64_t size)
{
	const struct packages_limits *l = packages_limits(g->policy);
	char why[POLICY_REASON_MAX];
	bool one = size <= gate_limits_under(0, l->file_bytes);

	if (one && size <= gate_limits_under(g->x->session->packages.bytes, l->bytes))
		return true;
	if (one)
		(void)snprintf(why, sizeof(why),
			       "the package budget of %llu bytes is used up: %llu are left, the "
			       "file has %llu",
			       (unsigned long long)l->bytes,
			       (unsigned long long)gate_limits_under(g->x->session->packages.bytes,
								     l->bytes),
			       (unsigned long long)size);
	else
		(void)snprintf(why, sizeof(why),
			       "the file has %llu bytes, a package file of this session may have "
			       "%llu",
			       (unsigned long long)size, (unsigned long long)l->file_bytes);
	package_gate_refuse(g, one ? "bytes" : "file_bytes", why);
	return false;
}

/* ---- names */

/* The request's own name does not count against itself. */
bool package_gate_may_ask(const struct package_gate *g)
{
	uint64_t max = packages_limits(g->policy)->new_names;

	return max == 0 || g->x->session->packages.new_names - (g->named ? 1 : 0) < max;
}

void package_gate_refuse_new(struct package_gate *g)
{
	package_gate_refuse(g, "new_names",
			    "this session asked for too many packages that do not exist: nothing "
			    "new is fetched");
}

/* Counted before the registry is asked, and taken back when it has the name: so many requests at
 * once cannot pass the bound. */
void package_gate_count_name(struct package_gate *g)
{
	if (g->named)
		return;
	g->named = true;
	g->x->session->packages.new_names++;
}

void package_gate_uncount_name(struct package_gate *g)
{
	if (g->named)
		g->x->session->packages.new_names--;
	g->named = false;
}

/* Archive paths and queries for image lists have no name, and room for data. */
bool package_gate_tells(const struct package_gate *g)
{
	const struct package_request *r = &g->request;

	if (g->registry == NULL)
		return false;
	if (r->ecosystem == ECO_APT)
		return r->kind != PACKAGE_FILE || g->expected.alg == DIGEST_NONE;
	return (r->name[0] != '\0' || g->x->query != NULL) &&
	       (r->kind == PACKAGE_META || r->kind == PACKAGE_FILEMETA ||
		r->kind == PACKAGE_INDEX || r->kind == PACKAGE_KEY);
}

#define ASKED_MAX 16U /* views, for one request: another session may have to be waited for */

/* ---- which package */

/* The host that the request of a connection to an address names. False: none. */
static bool gate_named_host(const struct gateway *x, struct endpoint *ret)
{
	const char *why;

	*ret = (struct endpoint){ 0 };
	return x->endpoint.host[0] == '\0' && x->r.host.n > 0 &&
	       endpoint_read(x->session->names, x->r.host, x->endpoint.port, ret, &why) == 0 &&
	       ret->host[0] != '\0';
}

/* The name of the host. A connection to an address has the name that the program gives, in its
 * ClientHello or in the request: the name of a registry in either makes it one. */
static struct package_target gate_target_of(const struct packages_policy *p,
					    const struct gateway *x, struct endpoint *named)
{
	struct package_target t = { .host = x->endpoint.host,
				    .port = x->endpoint.port,
				    .method = x->method,
				    .path = x->path,
				    .query = x->query,
				    .by_registry = x->by_registry };
	bool files;

	if (t.host[0] != '\0')
		return t;
	t.host = x->flow->sni;
	if ((t.host[0] == '\0' || packages_registry(p, t.host, t.port, t.path, &files) == NULL) &&
	    gate_named_host(x, named))
		t.host = named->host;
	return t;
}

/* Does the request name a host of a registry, and the ClientHello another host? Servers of many
 * names answer for the first one. */
static bool gate_names_another(const struct packages_policy *p, const struct gateway *x)
{
	struct endpoint named;
	bool files;

	return x->flow->sni[0] != '\0' && gate_named_host(x, &named) &&
	       strcmp(named.host, x->flow->sni) != 0 &&
	       packages_registry(p, named.host, named.port, x->path, &files) != NULL;
}

/* NULL: the host is none of a registry. */
static const struct package_registry *gate_registry_of(const struct packages_policy *p,
						       const struct gateway *x, bool *ret_files)
{
	struct endpoint named = { 0 };
	struct package_target t = gate_target_of(p, x, &named);

	if (t.host[0] == '\0')
		return NULL;
	return packages_registry(p, t.host, t.port, t.path, ret_files);
}

/* False: the request has nothing to do with packages. */
static bool gate_recognise(struct package_gate *g)
{
	struct endpoint named = { 0 };
	struct package_target t = gate_target_of(g->policy, g->x, &named);
	struct package_found found;

	if (!package_recognise(g->policy, &t, &found))
		return false;
	g->registry = found.registry;
	g->at_registry = found.at_registry;
	g->is_files = found.is_files;
	g->request = found.request;
	free(g->path);
	g->path = found.path == NULL ? NULL : strdup(found.path);
	assert(found.path == NULL || g->path != NULL);
	g->prefix = found.prefix;
	g->git_starts = found.git_starts;
	g->has_direct = found.has_direct;
	g->direct = found.direct;
	g->is_loose = found.is_loose;
	return true;
}

/* ---- its end
 *
 * Each function ends the request with an answer of egress, or lets it go to its server. The gateway
 * frees the gate by gate_end() then. */

/* bundler takes a 403 for a question about credentials, and shows the reason of another status. */
static int gate_refusal_status(const struct package_gate *g)
{
	return g->request.ecosystem == ECO_GEM ? 451 : 403;
}

/* The reason is copied first, because gateway_deny() frees the gate. */
void package_gate_refuse_judged(struct package_gate *g, const char *reason)
{
	struct gateway *x = g->x;
	char why[sizeof(x->reason)];

	str_copy(why, reason != NULL ? reason : g->answer.reason);
	str_copy(g->rule, g->answer.rule);
	g->result = PACKAGE_RESULT_REFUSED;
	gateway_defer(x);
	gateway_deny(x, g->answer.is_absent ? 404 : gate_refusal_status(g), why);
}

void package_gate_refuse(struct package_gate *g, const char *member, const char *reason)
{
	struct gateway *x = g->x;
	char why[sizeof(x->reason)];

	(void)snprintf(why, sizeof(why), "%.240s (packages.%.32s)", reason, member);
	(void)snprintf(g->rule, sizeof(g->rule), "packages.%.32s", member);
	g->result = PACKAGE_RESULT_REFUSED;
	gateway_defer(x);
	gateway_deny(x, gate_refusal_status(g), why);
}

/* The reason may belong to the gate or to a view, so it is copied. */
void package_gate_fail(struct package_gate *g, int status, const char *reason)
{
	struct gateway *x = g->x;
	char why[sizeof(x->reason)];

	str_copy(why, reason);
	g->result = PACKAGE_RESULT_FAILED;
	gateway_defer(x);
	gateway_fail(x, status, why);
}

void package_gate_mismatch(struct package_gate *g, const char *reason)
{
	struct gateway *x = g->x;

	g->result = PACKAGE_RESULT_HASH_MISMATCH;
	gateway_defer(x);
	gateway_fail(x, 403, reason);
}

void package_gate_send(struct package_gate *g)
{
	struct gateway *x = g->x;

	if (package_gate_tells(g)) {
		if (!package_gate_may_ask(g)) {
			package_gate_refuse_new(g);
			return;
		}
		package_gate_count_name(g);
	}
	gateway_defer(x);
	gateway_proceed(x);
}

/* Also for a gate that was only made to look at a request. */
static void gate_end(struct gateway *x)
{
	struct package_gate *g = x->package;

	if (x->status >= 500) /* it was not asked for in the end */
		package_gate_uncount_name(g);
	x->gate = NULL;
	x->package = NULL;
	package_view_put(&g->wait);
	cache_call_cancel(&g->seen);
	cache_call_cancel(&g->find);
	package_gate_meta_end(g);
	package_gate_zip_end(g);
	package_gate_apt_end(g);
	package_gate_probe_end(g);
	package_gate_go_end(g);
	package_download_leave(&g->follow);
	package_download_end(&g->follow, g->stored);
	(void)resource_share_documents(&x->session->share, g->counted, 0);
	package_document_drop(g->doc);
	free(g->file_key);
	free(g->path);
	free(g);
}

/* ---- the policy */

struct package_question package_gate_question(const struct package_gate *g,
					      const struct package_request *r)
{
	return (struct package_question){ .advisories = advisory_list(),
					  .registry = g->registry,
					  .request = r,
					  .path = g->path,
					  .prefix = g->prefix,
					  .git_starts = g->git_starts,
					  .direct = g->has_direct ? &g->direct : NULL,
					  .is_loose = g->is_loose,
					  .now_ms = clock_wall_ms() };
}

void package_gate_judge(struct package_gate *g)
{
	struct package_question q = package_gate_question(g, &g->request);

	q.facts = g->has_facts ? &g->facts : NULL;
	q.first_seen_ms = g->first_seen_ms;
	q.is_backdated = g->backdated;
	package_judge(g->policy, &q, &g->answer);
}

/* Does the host of the request still belong to its registry, or still to none? A request begun for
 * one registry does not continue without it. r: of the new policy. */
static bool gate_is_still_there(const struct package_gate *g, const struct package_registry *r,
				bool files)
{
	char text[PACKAGE_REGISTRY_TEXT];

	if ((r != NULL) != g->at_registry || files != g->is_files)
		return false;
	if (r == NULL || g->registry_text[0] == '\0')
		return true;
	package_registry_text(r, g->x->tls, text);
	return strcmp(text, g->registry_text) == 0;
}

/* A request in the middle of the gate's work is cut, because its steps rely on the old policy. One
 * that is only passed on is judged again. */
static bool gate_recheck(struct gateway *x)
{
	struct package_gate *g = x->package;
	const struct packages_policy *p = policy_packages(x->session->policy);
	bool files = false;
	const struct package_registry *r = gate_registry_of(p, x, &files);

	if (g->policy == NULL && p != NULL)
		return package_gate_stays(x);
	g->policy = p;
	g->registry = g->registry != NULL ? r : NULL;	   /* that of the old policy is gone */
	memset(g->answer.pins, 0, sizeof(g->answer.pins)); /* of the old policy */
	/* The new policy was not asked about the name that a redirect led to. */
	if (x->state == GATEWAY_PACKAGE || g->shaping != NULL || g->is_led ||
	    !gate_is_still_there(g, r, files)) {
		gateway_set_reason(x, "the policy of packages changed");
		return false;
	}
	if (p == NULL)
		return true;
	package_gate_judge(g);
	gateway_set_reason(x, "the policy of packages changed");
	if (g->answer.verdict == PACKAGE_REFUSE)
		gateway_set_reason(x, g->answer.reason);
	else if (g->request.kind != PACKAGE_FILE || g->expected.alg == DIGEST_NONE ||
		 package_answer_accepts(&g->answer, &g->expected)) {
		gateway_set_reason(x, "");
		return true;
	}
	return false;
}

/* ---- metadata
 *
 * A question for a document ends in g->then, in a refusal, or is asked again. The document is held
 * by the gate, since the view may get another one. */

static void on_view(struct completion *c, const struct err *e);

/* After ASKED_MAX questions the request fails, so a registry whose document keeps changing cannot
 * hold it. */
void package_gate_ask(struct package_gate *g, const struct package_source *source, bool any_age,
		      bool raw, void (*then)(struct package_gate *g))
{
	struct gateway *x = g->x;
	bool is_others = source->doc == DOC_GO_SUMDB; /* another server than the registry */
	char *credentials = g->own_credentials && !is_others ? package_gate_credentials(x) : NULL;
	const struct package_view_ask ask = {
		.session = x->session,
		.scope = g->scope,
		.registry = g->registry,
		.source = source,
		.name = g->request.name,
		.tls = x->tls,
		.only_cache = packages_cache_only(g->policy) || !package_gate_may_ask(g),
		.since_ms = g->since_ms,
		.credentials = credentials,
		.owner = &x->flow->owner,
	};

	package_view_put(&g->wait);
	g->source = *source;
	g->then = then;
	g->wait.any_age = any_age;
	g->wait.raw = raw;
	g->wait.done.on_done = on_view;
	g->wait.done.arg = g;
	if (g->asked++ < ASKED_MAX)
		package_view_get(&g->wait, &ask);
	else
		package_gate_fail(g, 503, "the registry's metadata changes too often");
	if (credentials != NULL)
		explicit_bzero(credentials, strlen(credentials));
	free(credentials);
}

bool package_gate_hold(struct package_gate *g, struct package_view *v)
{
	struct gateway *x = g->x;

	package_document_drop(g->doc);
	g->doc = NULL;
	g->cached = v->cached;
	if (v->doc == NULL)
		return true;
	g->doc = package_document_hold(v->doc);
	(void)resource_share_documents(&x->session->share, g->counted, 0);
	g->counted = package_meta_memory(g->doc->meta) + (g->wait.raw ? (size_t)g->doc->size : 0);
	if (resource_share_documents(&x->session->share, 0, g->counted))
		return true;
	package_gate_fail(g, 503, "requests of this session or its tenant use too much metadata");
	return false;
}

/* ERR_CONFLICT: the fetch of another session ended or waits, so the view is asked for again. */
static void on_view(struct completion *c, const struct err *e)
{
	struct package_gate *g = c->arg;
	struct package_view *v = g->wait.view;
	struct package_source source = g->source;

	gateway_wait(g->x, GATEWAY_ANSWER_MS);
	if (e != NULL && e->code == ERR_CONFLICT) {
		package_gate_ask(g, &source, g->wait.any_age, g->wait.raw, g->then);
		return;
	}
	if (e != NULL) {
		package_gate_fail(g, 503, e->msg);
		return;
	}
	if (v->status == 200 && v->doc != NULL && g->wait.raw && v->doc->fd < 0) {
		package_gate_ask(g, &source, g->wait.any_age, g->wait.raw, g->then);
		return;
	}
	if (package_gate_hold(g, v))
		g->then(g);
}

/* ---- the way of a request
 *
 * First the form of the request, then the host, then the policy's answer about the name. Nothing is
 * sent before all three. */

/* The judge has allowed it, or must know more about it. */
static void gate_go_on(struct package_gate *g)
{
	struct package_source source;

	if (g->request.kind == PACKAGE_FILE || g->request.kind == PACKAGE_FILEMETA) {
		package_gate_file(g);
		return;
	}
	if (g->request.kind == PACKAGE_META && package_gate_shapes(g, &source)) {
		package_gate_meta(g, &source);
		return;
	}
	if (!package_gate_may_ask(g) && g->request.name[0] != '\0') {
		package_gate_refuse(g, "new_names",
				    "this session asked for too many packages that do not exist");
		return;
	}
	package_gate_copy(g);
}

/* pip does not show the refusal of a name, but that of a file. */
static bool gate_is_of_pip(const struct package_gate *g)
{
	return g->request.form == FORM_PYPI_SIMPLE && !g->answer.is_absent && g->registry != NULL;
}

/* bundler turns to other documents, without saying why, if one is refused or not as its ETag says.
 */
static bool gate_is_of_bundler(const struct package_gate *g)
{
	return g->request.ecosystem == ECO_GEM && g->request.kind == PACKAGE_META &&
	       !g->answer.is_absent && !g->answer.is_offline;
}

static void gate_refuse_name(struct package_gate *g)
{
	if (gate_is_of_bundler(g)) {
		gate_go_on(g);
		return;
	}
	if (!gate_is_of_pip(g))
		package_gate_refuse_judged(g, NULL);
	else
		package_gate_pip_page(g, package_gate_accepts(g, "+json"));
}

/* The answers of an address would be kept and believed as those of the registry's name. */
static void gate_refuse_address(struct package_gate *g)
{
	if (g->answer.verdict == PACKAGE_REFUSE)
		package_gate_refuse_judged(g, NULL);
	else
		package_gate_refuse(g, "registries",
				    "a registry is asked by its name, not by an address");
}

static void gate_decide(struct package_gate *g)
{
	struct gateway *x = g->x;

	if (x->r.framing != HTTP1_NO_BODY && !x->out.done &&
	    (x->r.method == HTTP1_GET || x->r.method == HTTP1_HEAD)) {
		x->r.keep_alive = false;
		package_gate_refuse(g, "registries",
				    "a request for a package must not have a body");
		return;
	}
	if (!x->tls && x->by_registry && g->request.ecosystem != ECO_APT) {
		package_gate_refuse(g, "registries",
				    "a registry is asked over TLS only, unless a rule allows it");
		return;
	}
	if (x->r.upgrade_websocket) {
		package_gate_refuse(g, "registries", "a registry is not asked for a WebSocket");
		return;
	}
	package_gate_judge(g);
	if (gate_names_another(g->policy, x))
		package_gate_refuse(g, "registries",
				    "a registry is asked by its name, not behind another one's");
	else if (g->answer.verdict == PACKAGE_BY_RULES)
		package_gate_refuse(g, "registries",
				    "this is no request for a package, and no rule allows it");
	else if (g->registry != NULL && x->endpoint.host[0] == '\0')
		gate_refuse_address(g);
	else if (g->answer.verdict == PACKAGE_REFUSE)
		gate_refuse_name(g);
	else
		gate_go_on(g);
}

/* Requests whose packages are not judged: recorded if they install or publish. */
static bool gate_is_recorded(const struct package_gate *g)
{
	switch (g->request.kind) {
	case PACKAGE_FILE:
	case PACKAGE_PUBLISH:
	case PACKAGE_SEARCH:
	case PACKAGE_AUDIT:
		return true;
	case PACKAGE_INDEX:
	case PACKAGE_META:
	case PACKAGE_FILEMETA:
	case PACKAGE_AUTH:
	case PACKAGE_KEY:
	case PACKAGE_OTHER:
	case PACKAGE_KINDS:
		break;
	}
	return false;
}

/* A page at a git server, say: it is no package, and the entry of a registry does not allow it. */
static bool gate_is_page(struct package_gate *g)
{
	package_gate_judge(g);
	return g->answer.verdict == PACKAGE_BY_RULES && !g->x->by_registry &&
	       !gate_names_another(g->policy, g->x);
}

static const struct gateway_gate gate = { .on_head = package_gate_head,
					  .on_record = package_gate_record,
					  .on_end = gate_end,
					  .on_policy_change = gate_recheck,
					  .drops = package_gate_drops,
					  .headers = package_gate_headers,
					  .wants_json = package_gate_wants_json,
					  .memory = package_gate_memory };

/* NULL: out of memory. It is the gateway's gate from now on, and result says failed until the end
 * is known. */
static struct package_gate *gate_new(struct gateway *x, const struct packages_policy *policy)
{
	struct package_gate *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->x = x;
	g->seen.found.fd = g->find.found.fd = -1;
	g->policy = policy;
	g->result = PACKAGE_RESULT_FAILED;
	x->package = g;
	x->gate = &gate;
	return g;
}

/* pip shows nothing of a refused page: see package_gate_answer.c. */
static bool gate_tells_pip(const struct package_gate *g)
{
	return g->registry != NULL && g->registry->is_implicit &&
	       g->request.form == FORM_PYPI_SIMPLE && g->x->r.method == HTTP1_GET && g->x->out.done;
}

/* The rules refuse it. At a registry that the policy lists, in plain HTTP for one, the record says
 * which package it was. */
bool package_gate_refused(struct gateway *x, const char *reason)
{
	const struct packages_policy *policy = policy_packages(x->session->policy);
	struct package_gate *g = NULL;
	bool files;

	if (x->flow->internal || gate_registry_of(policy, x, &files) == NULL)
		return false;
	g = gate_new(x, policy);
	if (g == NULL)
		return false;
	g->result = PACKAGE_RESULT_REFUSED;
	if (gate_recognise(g) && gate_tells_pip(g)) {
		str_copy(g->answer.reason, reason);
		package_gate_pip_page(g, package_gate_accepts(g, "+json"));
		return true;
	}
	if (policy == NULL || g->registry == NULL || g->registry->is_implicit ||
	    !gate_is_recorded(g))
		gate_end(x);
	return false;
}

/* Would a gate of that policy judge the request? */
static bool gate_concerns(struct gateway *x, const struct packages_policy *p)
{
	const struct gateway_gate *gate_before = x->gate;
	struct package_gate *before = x->package, *g = gate_new(x, p);
	bool concerns = g == NULL || (gate_recognise(g) && !gate_is_page(g));

	if (g != NULL)
		gate_end(x);
	x->gate = gate_before;
	x->package = before;
	return concerns;
}

bool package_gate_stays(struct gateway *x)
{
	const struct packages_policy *p = policy_packages(x->session->policy);

	if (x->flow->internal || p == NULL || !gate_concerns(x, p))
		return true;
	gateway_set_reason(x, "the policy of packages changed");
	return false;
}

bool package_gate_begin(struct gateway *x)
{
	const struct packages_policy *policy = policy_packages(x->session->policy);
	struct package_gate *g;
	bool files;

	if (x->flow->internal || (policy == NULL && gate_registry_of(NULL, x, &files) == NULL))
		return false;
	g = gate_new(x, policy);
	if (g == NULL) {
		gateway_fail(x, 503, "out of memory");
		return true;
	}
	if (!gate_recognise(g) || (g->policy == NULL && !gate_is_recorded(g)) ||
	    (g->policy != NULL && gate_is_page(g))) {
		gate_end(x);
		return false;
	}
	if (g->registry != NULL)
		package_registry_text(g->registry, x->tls, g->registry_text);
	if (g->policy == NULL) {
		g->result = PACKAGE_RESULT_PASSED;
		return false;
	}
	package_gate_set_scope(g);
	package_gate_set_budget(g);
	x->state = GATEWAY_PACKAGE;
	gateway_wait(x, GATEWAY_ANSWER_MS);
	gate_decide(g);
	return true;
}
