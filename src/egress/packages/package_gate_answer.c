/* package_gate_answer.c - requests to a registry and its answers: headers, statuses, redirects,
 * sizes. See package_gate.h. A registry is not trusted: a redirect is followed by egress itself,
 * and only to hosts of the same registry. A part is never taken for a whole. */
#include "egress/packages/package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/control/advisory_list.h"
#include "egress/flow/flow.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_file.h"
#include "egress/gateway/gateway_judge.h"
#include "egress/gateway/gateway_request.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/packages/package_apt.h"
#include "egress/packages/package_redirect.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

/* ---- judges the places that a registry redirects to. Called by
 * package_gate_answer.c for every redirect of a request. See package_gate_base.h.
 *
 * A redirect may lead to the request of another package: a renamed repository, or an image mounted
 * from another one. Such a place is judged as if the program had asked for it. A place that tells
 * no package stays allowed, since files are often at a storage without names. So is what only
 * resembles a request at a host of files with an unknown layout. The metadata of the new name is
 * not asked for: age and digest are those of the package that the program asked for.
 *
 * An answer that a request for one name got under another name is not kept and not shared. The
 * cache would give it to a session whose policy denies the other name. */

/* Does the place name the requested package? */
static bool gate_led_is_same(const struct package_request *a, const struct package_request *b)
{
	return a->ecosystem == b->ecosystem && a->kind == b->kind &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->version, b->version) == 0;
}

static bool gate_led_judge(struct package_gate *g, struct package_found *found)
{
	const struct package_question q = { .advisories = advisory_list(),
					    .registry = found->registry != NULL ? found->registry
										: g->registry,
					    .request = &found->request,
					    .path = found->path,
					    .prefix = found->prefix,
					    .git_starts = found->git_starts,
					    .direct = found->has_direct ? &found->direct : NULL,
					    .is_loose = found->is_loose || found->registry == NULL,
					    .now_ms = clock_wall_ms() };
	struct package_answer answer;

	package_judge(g->policy, &q, &answer);
	if (answer.verdict != PACKAGE_REFUSE)
		return true;
	g->answer = answer;
	return false;
}

bool package_gate_may_lead(struct package_gate *g, const struct endpoint *to, const char *target)
{
	static struct package_place place; /* too large for the stack */

	if (!package_redirect_place(g->policy, to, g->x->method, g->request.kind, target, &place)) {
		gateway_drop_server(g->x);
		package_gate_refuse(g, "registries",
				    "the registry redirects to an address that is malformed");
		return false;
	}
	if (!place.is_judged || gate_led_is_same(&place.found.request, &g->request))
		return true;
	if (!gate_led_judge(g, &place.found)) {
		gateway_drop_server(g->x);
		package_gate_refuse_judged(g, NULL);
		return false;
	}
	if (place.is_named) {
		g->is_led = true;
		gateway_tap_keep_nothing(g->x);
	}
	return true;
}

/* ---- documents of a registry passed on as they are: indexes, signed or plain metadata, metadata
 * of one file. A copy of each goes into the cache, for sessions that take packages from it alone
 * (mode offline-cache). All others get them from the registry. A copy has no digest to be checked
 * against: it is the registry's last answer for this scope. But apt's documents requested by their
 * digest are checked, and come from the cache if it has them. */

#define KEY_MAX CACHE_PATH_MAX
#define ACCEPT_MAX 256U /* in a key, with NUL */

/* The request's Accept, as a part of a key: as it is, or hashed if it is long or said more than
 * once. */
static void gate_copy_write_accept(const struct gateway *x, char ret[ACCEPT_MAX])
{
	struct http1_span accept = { 0 };
	size_t found = http1_find(x->r.headers, x->r.headers_n, "accept", &accept);
	uint8_t hash[SHA256_SIZE];
	struct sha256 hasher;

	if (found <= 1 && accept.n < ACCEPT_MAX) {
		(void)snprintf(ret, ACCEPT_MAX, "%.*s", (int)accept.n,
			       accept.n > 0 ? accept.p : "");
		return;
	}
	sha256_init(&hasher);
	for (size_t i = 0; i < x->r.headers_n; i++) {
		const struct http1_header *h = &x->r.headers[i];

		if (!http1_span_is_nocase(h->name, "accept"))
			continue;
		if (h->value.n > 0)
			sha256_add(&hasher, h->value.p, h->value.n);
		sha256_add(&hasher, "", 1);
	}
	sha256_end(&hasher, hash);
	hex_encode(hash, sizeof(hash), ret);
}

/* Where it is, and in which form it was asked for. False: too long. */
static bool gate_copy_make_key(struct package_gate *g)
{
	const struct gateway *x = g->x;
	char name[HOST_MAX], accept[ACCEPT_MAX], key[KEY_MAX];
	int n;

	gate_copy_write_accept(x, accept);
	endpoint_name(&x->endpoint, name);
	n = snprintf(key, sizeof(key), "%s://%s:%u%s%s%s copy %s", x->tls ? "https" : "http", name,
		     x->endpoint.port, x->path, x->query != NULL ? "?" : "",
		     x->query != NULL ? x->query : "", accept);
	free(g->file_key);
	g->file_key = n > 0 && n < (int)sizeof(key) ? strdup(key) : NULL;
	return g->file_key != NULL;
}

/* The digest that the path itself names, or that a checksum file names. */
static bool gate_copy_is_by_digest(const struct package_gate *g, struct digest *ret)
{
	static const char alg[] = "SHA256:";
	const char *v = g->request.version;

	if (g->expected.alg != DIGEST_NONE) {
		*ret = g->expected;
		return true;
	}
	return g->request.form == FORM_APT_BY_HASH && strncmp(v, alg, sizeof(alg) - 1) == 0 &&
	       digest_read_hex(DIGEST_SHA256, v + sizeof(alg) - 1, strlen(v + sizeof(alg) - 1),
			       ret);
}

/* The program has got a document of an archive: files of it may come next. */
static void gate_copy_note_index(struct package_gate *g, const uint8_t *sha256)
{
	const struct package_apt_of of = package_gate_apt_of(g);

	if (g->request.ecosystem == ECO_APT && !g->is_files)
		package_apt_note(g->x->session->egress, &of, g->x->path, sha256);
}

/* It is not what its path says. */
static void on_bad(void *arg)
{
	struct package_gate *g = arg;

	g->result = PACKAGE_RESULT_CUT;
	cache_drop(g->x->session->egress,
		   &(struct cache_key){ g->scope, g->registry_text, g->file_key });
}

static void gate_copy_pass(struct package_gate *g);

static void gate_copy_refuse_absent(struct package_gate *g, bool is_running)
{
	const struct package_request *r = &g->request;
	char why[POLICY_REASON_MAX];

	(void)snprintf(
		why, sizeof(why),
		is_running ? "%.100s is not in the package cache, and this session fetches nothing"
			   : "%.100s: packages come from the package cache only, and it is not "
			     "running",
		r->written[0] != '\0' ? r->written
		: r->name[0] != '\0'  ? r->name
				      : g->x->path);
	package_gate_refuse(g, "mode", why);
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;
	struct digest digest;
	bool checked = gate_copy_is_by_digest(g, &digest);

	if ((found == NULL || found->fd < 0) && !packages_cache_only(g->policy)) {
		gate_copy_pass(g);
		return;
	}
	if (found == NULL || found->fd < 0) {
		gate_copy_refuse_absent(g, e == NULL);
		return;
	}
	g->cached = PACKAGE_CACHE_HIT;
	g->result = PACKAGE_RESULT_PASSED;
	gate_copy_note_index(g, NULL);
	gateway_defer(g->x);
	gateway_file_serve(g->x, &(struct gateway_content){ .type = found->type,
							    .etag = found->etag,
							    .last_modified = found->last_modified,
							    .fd = TAKE_FD(found->fd),
							    .size = found->size,
							    .expected = checked ? &digest : NULL,
							    .on_bad = on_bad,
							    .arg = g });
}

static void on_tap_end(struct gateway *x, const struct gateway_tap_end *end, void *arg)
{
	struct package_gate *g = arg;

	if (end->result == TAP_MISMATCH && package_gate_is_checked(g))
		g->result = PACKAGE_RESULT_HASH_MISMATCH;
	else if (end->result == TAP_CUT || end->result == TAP_MISMATCH)
		g->result = PACKAGE_RESULT_CUT;
	else if (end->result != TAP_NONE)
		gate_copy_note_index(g, end->sha256);
}

static void gate_copy_pass(struct package_gate *g)
{
	struct gateway *x = g->x;
	struct digest digest;
	const struct gateway_tap_want want = { .expected = &digest,
					       .nexpected =
						       gate_copy_is_by_digest(g, &digest) ? 1 : 0,
					       .store = true,
					       .key = { g->scope, g->registry_text, g->file_key },
					       .on_end = on_tap_end,
					       .arg = g };
	struct err e = { 0 };

	g->cached =
		cache_link_is_open(x->session->egress) ? PACKAGE_CACHE_MISS : PACKAGE_CACHE_BYPASS;
	if (gateway_tap_set(x, &want, &e) < 0)
		package_gate_fail(g, 503, e.msg);
	else
		package_gate_send(g);
}

bool package_gate_copies(const struct package_gate *g)
{
	if (g->x->r.method != HTTP1_GET || g->registry == NULL || g->request.ecosystem == ECO_GIT)
		return false;
	return g->request.kind == PACKAGE_INDEX || g->request.kind == PACKAGE_META ||
	       g->request.kind == PACKAGE_FILEMETA || g->request.kind == PACKAGE_KEY;
}

void package_gate_copy(struct package_gate *g)
{
	struct gateway *x = g->x;
	struct cache_key key = { .scope = g->scope, .registry = g->registry_text };
	bool keyed = package_gate_copies(g) && gate_copy_make_key(g);
	struct digest digest;

	key.path = g->file_key;
	g->result = PACKAGE_RESULT_PASSED;
	if (keyed && (packages_cache_only(g->policy) || gate_copy_is_by_digest(g, &digest))) {
		g->find.on_done = on_found;
		g->find.arg = g;
		cache_find(x->session->egress, x->session->share.tenant->name, &g->find, &key);
	} else if (packages_cache_only(g->policy)) {
		package_gate_refuse(g, "mode",
				    "this session takes packages from the cache only, which does "
				    "not keep this");
	} else if (keyed) {
		gate_copy_pass(g);
	} else {
		package_gate_send(g);
	}
}

/* ---- a page for pip in a session whose packages are off.
 *
 * pip shows nothing of a refused page: only "No matching distribution found". So it gets a page
 * with one file, whose version spells the reason in the letters that a version may have. pip either
 * asks for the file, and prints the refusal, or finds that the version does not fit, and prints it.
 * Such a version begins in a way that tells it from a real one: records leave it out. */

#define PAGE_MAX ((size_t)4096)
#define REASON_MAX 100U

struct package_gate_page {
	struct buf text;
	size_t at;
};

#define INVENTED "0+cordon."

bool package_gate_is_invented(const struct package_gate *g)
{
	return g->request.ecosystem == ECO_PYPI && g->result == PACKAGE_RESULT_REFUSED &&
	       strncmp(g->request.version, INVENTED, strlen(INVENTED)) == 0;
}

/* "packages are off" as "0+cordon.packages.are.off". */
static void gate_pip_spell(const char *reason, char *ret, size_t cap)
{
	size_t n = (size_t)snprintf(ret, cap, INVENTED);

	for (; *reason != '\0' && n + 2 < cap; reason++) {
		bool word =
			(*reason >= 'a' && *reason <= 'z') || (*reason >= '0' && *reason <= '9');

		if (word)
			ret[n++] = *reason;
		else if (ret[n - 1] != '.' && ret[n - 1] != '+')
			ret[n++] = '.';
	}
	while (ret[n - 1] == '.')
		n--;
	ret[n] = '\0';
}

static void gate_pip_write_page(struct buf *b, const struct package_gate *g, bool json)
{
	char version[REASON_MAX], name[PACKAGE_NAME_MAX];

	gate_pip_spell(g->answer.reason, version, sizeof(version));
	str_copy(name, g->request.name);
	for (char *c = name; *c != '\0'; c++)
		if (*c == '-')
			*c = '_';
	if (json)
		buf_printf(b,
			   "{\"meta\":{\"api-version\":\"1.0\"},\"name\":\"%s\",\"files\":[{"
			   "\"filename\":\"%s-%s-py3-none-any.whl\",\"hashes\":{},"
			   "\"url\":\"../../packages/%s-0%%2B%s-py3-none-any.whl\"}]}",
			   g->request.name, name, version, name, version + 2);
	else
		buf_printf(b,
			   "<!DOCTYPE html><html><body><a href=\"../../packages/"
			   "%s-0%%2B%s-py3-none-any.whl\">%s-%s-py3-none-any.whl</a></body></html>",
			   name, version + 2, name, version);
}

static ssize_t gate_pip_produce(void *arg, uint8_t *ret, size_t cap)
{
	struct package_gate_page *p = arg;
	size_t n = p->text.len - p->at < cap ? p->text.len - p->at : cap;

	memcpy(ret, p->text.data + p->at, n);
	p->at += n;
	return (ssize_t)n;
}

static void gate_pip_release(void *arg)
{
	struct package_gate_page *p = arg;

	buf_release(&p->text);
	free(p);
}

void package_gate_pip_page(struct package_gate *g, bool json)
{
	struct package_gate_page *p = calloc(1, sizeof(*p));
	struct err e;

	if (p == NULL) {
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	buf_init(&p->text, PAGE_MAX);
	gate_pip_write_page(&p->text, g, json);
	if (buf_check(&p->text, &e) < 0) {
		gate_pip_release(p);
		package_gate_fail(g, 503, e.msg);
		return;
	}
	g->result = PACKAGE_RESULT_REFUSED;
	str_copy(g->rule, g->answer.rule);
	gateway_set_reason(g->x, g->answer.reason);
	gateway_defer(g->x);
	gateway_file_serve(
		g->x, &(struct gateway_content){
			      .type = json ? "application/vnd.pypi.simple.v1+json" : "text/html",
			      .fd = -1,
			      .produce = gate_pip_produce,
			      .release = gate_pip_release,
			      .arg = p });
}

#define SHORT_MAX 65536U /* bytes of a body other than a file */

/* ---- limits */

static bool gate_answer_is_file(const struct package_gate *g)
{
	return g->policy != NULL && g->request.kind == PACKAGE_FILE;
}

/* The network policy does not allow a document that the gate had to fetch. */
static void gate_answer_refuse_fetch(struct package_gate *g, const char *reason)
{
	char why[POLICY_REASON_MAX];

	str_copy(why, reason);
	g->result = PACKAGE_RESULT_REFUSED;
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
		gate_answer_refuse_fetch(g, v->why);
	else
		package_gate_fail(g, v->status >= 400 ? v->status : 502, v->why);
}

/* ---- requests */

/* Does egress read the answer, or keep a copy of it? Then it must be plain and whole. */
static bool gate_answer_is_read(const struct package_gate *g)
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
	if (!gate_answer_is_read(g) || http1_span_is_nocase(name, "accept") ||
	    package_gate_is_credential(name))
		return false;
	return gate_answer_is_file(g) || !(http1_span_is_nocase(name, "if-none-match") ||
					   http1_span_is_nocase(name, "if-modified-since"));
}

const char *package_gate_headers(const struct gateway *x)
{
	const struct package_gate *g = x->package;

	if (g->policy == NULL)
		return "";
	if (g->request.ecosystem == ECO_GIT) /* servers look for this word */
		return "User-Agent: git/2 (cordon)\r\n";
	if (gate_answer_is_read(g) && !x->plain_answer)
		return "User-Agent: cordon\r\nAccept-Encoding: identity\r\n";
	return "User-Agent: cordon\r\n";
}

bool package_gate_wants_json(const struct gateway *x)
{
	return x->package->request.ecosystem == ECO_NPM;
}

/* ---- answers */

static void gate_answer_refuse(struct package_gate *g, const char *why)
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
	if (!follows) {
		gate_answer_refuse(g, why);
		return false;
	}
	return package_gate_may_lead(g, to, target);
}

/* Ask the host that the answer leads to, if it is one of the registry's. */
static void gate_answer_follow(struct package_gate *g, const struct http1_response *a)
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

static void gate_answer_count_unknown(struct package_gate *g, int status)
{
	struct package_used *used = &g->x->session->packages;
	bool unknown = status == 404 || status == 410;

	/* The query of a list is counted with any answer: the list exists. */
	if (g->named && !unknown && (g->request.ecosystem != ECO_OCI || g->x->query == NULL))
		used->new_names--;
	else if (!g->named && unknown && g->request.name[0] != '\0')
		used->new_names++;
	g->named = false;
}

static bool gate_answer_is_plain(const struct http1_response *a)
{
	struct http1_span coding;
	size_t n = http1_find(a->headers, a->headers_n, "content-encoding", &coding);

	return n == 0 || (n == 1 && (coding.n == 0 || http1_span_is_nocase(coding, "identity")));
}

static bool gate_answer_is_short(const struct http1_response *a)
{
	return a->framing == HTTP1_NO_BODY ||
	       (a->framing == HTTP1_LENGTH && a->content_length <= SHORT_MAX);
}

/* May an answer with this status go to the cell? Clients take every status below 400 for the file,
 * and only the body of a 200 is hashed. Among refusals the program needs only the head of a 401. A
 * redirect is here only if the URL is a direct one. */
static bool gate_answer_is_answer(const struct package_gate *g, const struct http1_response *a)
{
	if (a->status == 200)
		return true;
	if (a->status == 401 || (package_redirect_is(a->status) && g->registry == NULL))
		return gate_answer_is_short(a);
	return !gate_answer_is_file(g) && (a->status == 304 || a->status >= 400);
}

static void gate_answer_refuse_answer(struct package_gate *g, int status, const char *why)
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
			g->result = PACKAGE_RESULT_DOWNLOADED;
		return true;
	}
	gate_answer_count_unknown(g, a->status);
	if (a->status == 200 && (gate_answer_is_file(g) || g->request.kind == PACKAGE_FILEMETA))
		package_gate_seen_now(g);
	if (package_redirect_is(a->status) && g->registry != NULL &&
	    (x->r.method == HTTP1_GET || x->r.method == HTTP1_HEAD)) {
		gate_answer_follow(g, a);
		return false;
	}
	if (package_redirect_is(a->status) &&
	    (g->expected.alg != DIGEST_NONE || g->origin == PACKAGE_BY_PIN)) {
		gate_answer_refuse(g, "a pinned file is not followed to another host");
		return false;
	}
	if (!gate_answer_is_read(g))
		return true;
	if (!gate_answer_is_answer(g, a)) {
		(void)snprintf(why, sizeof(why), "the registry answered with status %d", a->status);
		gate_answer_refuse_answer(g, a->status >= 400 ? a->status : 502, why);
		return false;
	}
	if (!gate_answer_is_file(g) || a->status != 200)
		return true;
	if (!gate_answer_is_plain(a)) {
		gate_answer_refuse(g,
				   "the registry sent a compressed file, which was not asked for");
		return false;
	}
	return a->framing != HTTP1_LENGTH || package_gate_fits(g, a->content_length);
}
