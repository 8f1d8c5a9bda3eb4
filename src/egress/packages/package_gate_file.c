/* package_gate_file.c - theory of operation
 *
 * A file is judged on its own, since clients with a lockfile never ask for metadata. The registry's
 * metadata about it decides: its time, whether it runs code, and above all its digest. Facts of any
 * age will do, as long as the file is among them: they do not change, and if they do, the file is
 * refused.
 *
 * With a digest, the cache may have it: the key of a file in the cache holds the digest that its
 * bytes were checked against. Else it comes from the server, is hashed on its way, and its last
 * bytes wait until the hash is right (gateway_tap.h). Files of Maven and modules of Go have their
 * digests beside them (package_gate_sums.c). A file without any is refused or passed on by the
 * policy, and never kept. */
#include "egress/packages/package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/gateway/gateway_file.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/packages/package_fetch.h"
#include "egress/packages/package_redirect.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

/* ---- since when this node knows a version whose registry says no time, or one
 * that its author chose. See package_gate_base.h.
 *
 * The clock of a version starts when its registry has said that it exists, never when a program
 * asks for it: else a program could ask before it is published, and it would be old enough at once.
 * Metadata that names the version, or a checksum of the file, says so. Without them (git, images,
 * some files of Maven and apt) a request whose age decides is preceded by a HEAD request of egress,
 * and any answer of 200 to the program starts the clock. */

/* A HEAD request of egress, made before a version counts as existing. */
struct package_probe {
	struct package_gate *gate;
	struct package_fetch fetch;
	struct endpoint to;
	char target[PACKAGE_REDIRECT_TARGET_MAX];
	unsigned redirects;
};

bool package_gate_counts_sight(const struct package_gate *g)
{
	return g->registry != NULL && g->request.version[0] != '\0' &&
	       (!g->facts.has_time || g->request.ecosystem == ECO_GO);
}

/* note: the clock starts now if it has not yet. Else it is only read. */
static void gate_seen_ask(struct package_gate *g, bool note,
			  void (*on_done)(struct cache_call *c, struct cache_found *found,
					  const struct err *e))
{
	const struct cache_key key = { .scope = g->scope,
				       .registry = g->registry_text,
				       .path = "" };
	struct egress *egress = g->x->session->egress;
	const char *tenant = g->x->session->share.tenant->name;
	char name[CACHE_NAME_MAX];

	(void)snprintf(name, sizeof(name), "%s@%s", g->request.name, g->request.version);
	cache_call_cancel(&g->seen);
	g->seen.on_done = on_done;
	g->seen.arg = g;
	if (note)
		cache_seen(egress, tenant, &g->seen, &key, name);
	else
		cache_known(egress, tenant, &g->seen, &key, name);
}

static void on_seen(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;

	g->first_seen_ms = found != NULL ? found->seen_ms : 0;
	package_gate_file_decide(g);
}

/* ---- versions that claim to be older than they are */

static void on_backdated(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;

	g->first_seen_ms = found != NULL ? found->seen_ms : 0;
	g->backdated = g->first_seen_ms != 0;
	package_gate_file_decide(g);
}

/* This process may have noticed it, or another one. */
static void gate_seen_ask_backdated(struct package_gate *g)
{
	const struct cache_key key = { .scope = g->scope,
				       .registry = g->registry_text,
				       .path = "" };
	const char *file = package_changes_name(&g->facts);
	char name[CACHE_NAME_MAX];

	if (g->wait.view != NULL)
		g->first_seen_ms = package_changes_backdated(&g->wait.view->changes, file);
	g->backdated = g->first_seen_ms != 0;
	if (g->backdated || !packages_wants_age(g->policy)) {
		package_gate_file_decide(g);
		return;
	}
	package_view_backdated_name(g->request.name, file, name);
	cache_call_cancel(&g->seen);
	g->seen.on_done = on_backdated;
	g->seen.arg = g;
	cache_known(g->x->session->egress, g->x->session->share.tenant->name, &g->seen, &key, name);
}

/* ---- both */

void package_gate_seen(struct package_gate *g)
{
	if (package_gate_counts_sight(g))
		gate_seen_ask(g, g->exists, on_seen);
	else if (g->registry != NULL && g->facts.has_time)
		gate_seen_ask_backdated(g);
	else
		package_gate_file_decide(g);
}

/* Nothing waits for it: the request is already answered. */
static void on_noted(struct cache_call *c, struct cache_found *found, const struct err *e)
{
}

void package_gate_seen_now(struct package_gate *g)
{
	if (!g->exists && g->first_seen_ms == 0 && package_gate_counts_sight(g))
		gate_seen_ask(g, true, on_noted);
	g->exists = true;
}

/* ---- does the registry have it? */

void package_gate_probe_end(struct package_gate *g)
{
	if (g->probe == NULL)
		return;
	package_fetch_release(&g->probe->fetch);
	free(g->probe);
	g->probe = NULL;
}

static void gate_seen_fetch(struct package_probe *p);

/* A place that the policy refuses has ended the request. */
static void gate_seen_follow(struct package_probe *p)
{
	if (package_gate_leads(p->gate, p->fetch.location, &p->redirects, &p->to, p->target))
		gate_seen_fetch(p);
}

static void on_answer(struct completion *c, const struct err *e)
{
	struct package_probe *p = c->arg;
	struct package_gate *g = p->gate;
	int status = p->fetch.status;
	char why[POLICY_REASON_MAX];

	gateway_wait(g->x, GATEWAY_ANSWER_MS);
	if (e == NULL && package_redirect_is(status)) {
		gate_seen_follow(p);
		return;
	}
	if (e == NULL && status == 200) {
		g->exists = true;
		package_gate_uncount_name(g);
		package_gate_probe_end(g);
		package_gate_seen(g);
		return;
	}
	str_copy(why, e != NULL			   ? e->msg
		      : p->fetch.reason[0] != '\0' ? p->fetch.reason
						   : "the registry does not have it");
	package_gate_fail(g, e != NULL || status < 400 ? 502 : status, why);
}

static void gate_seen_fetch(struct package_probe *p)
{
	struct gateway *x = p->gate->x;
	char *credentials =
		p->gate->own_credentials && p->redirects == 0 ? package_gate_credentials(x) : NULL;
	const struct package_fetch_ask ask = { .to = &p->to,
					       .tls = x->tls,
					       .head = true,
					       .target = p->target,
					       .etag = "",
					       .modified = "",
					       .credentials = credentials,
					       .owner = &x->flow->owner,
					       .noun = "file",
					       .max = 1 };

	package_fetch_release(&p->fetch);
	p->fetch.done.on_done = on_answer;
	p->fetch.done.arg = p;
	package_fetch_start(&p->fetch, x->session, &ask);
	if (credentials != NULL)
		explicit_bzero(credentials, strlen(credentials));
	free(credentials);
}

/* Would it be allowed if it were old? Then its age alone decides. */
static bool gate_seen_is_young(struct package_gate *g)
{
	struct package_answer answer = g->answer;
	bool young;

	g->first_seen_ms = 1;
	package_gate_judge(g);
	young = g->answer.verdict == PACKAGE_ALLOW;
	g->first_seen_ms = 0;
	g->answer = answer;
	return young;
}

bool package_gate_probe(struct package_gate *g)
{
	struct package_probe *p;

	if (g->exists || g->first_seen_ms != 0 || !package_gate_counts_sight(g) ||
	    packages_cache_only(g->policy) || !package_gate_may_ask(g) || !gate_seen_is_young(g))
		return false;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return false;
	g->probe = p;
	package_gate_count_name(g);
	p->gate = g;
	package_fetch_init(&p->fetch);
	p->to = g->x->endpoint;
	(void)snprintf(p->target, sizeof(p->target), "%s%s%s", g->x->path,
		       g->x->query != NULL ? "?" : "", g->x->query != NULL ? g->x->query : "");
	gate_seen_fetch(p);
	return true;
}

#define KEY_MAX CACHE_PATH_MAX
#define PINS_MAX GATEWAY_TAP_DIGESTS_MAX

static void gate_file_find_file(struct package_gate *g);

/* ---- from the server */

/* The result of the bytes, for the record. */
static void on_tap_end(struct gateway *x, const struct gateway_tap_end *end, void *arg)
{
	struct package_gate *g = arg;

	g->bytes = end->bytes;
	switch (end->result) {
	case TAP_VERIFIED:
		g->verified = true;
		g->stored = end->stored;
		g->result = PACKAGE_RESULT_DOWNLOADED;
		break;
	case TAP_WHOLE:
		g->stored = end->stored;
		g->result = PACKAGE_RESULT_DOWNLOADED;
		break;
	case TAP_MISMATCH:
		g->result = PACKAGE_RESULT_HASH_MISMATCH;
		break;
	case TAP_CUT:
		g->result = PACKAGE_RESULT_CUT;
		break;
	case TAP_NONE:
		g->result = PACKAGE_RESULT_FAILED;
		return;
	}
	if (end->result == TAP_CUT)
		return;
	g->checksum.alg = DIGEST_SHA256;
	memcpy(g->checksum.bytes, end->sha256, sizeof(end->sha256));
}

/* Too large for the stack. */
static struct digest digests[PINS_MAX];

/* The digests of which the file must have one, to `digests`. 0: any file will do. */
static size_t gate_file_find_digests(const struct package_gate *g)
{
	size_t n = 0;

	if (g->expected.alg != DIGEST_NONE) {
		digests[0] = g->expected;
		return 1;
	}
	for (size_t layer = 0; layer < COUNT(g->answer.pins) && n == 0; layer++)
		for (size_t i = 0; i < g->answer.pins[layer].n && n < PINS_MAX; i++)
			if (package_answer_accepts(&g->answer, &g->answer.pins[layer].list[i]))
				digests[n++] = g->answer.pins[layer].list[i];
	return n;
}

bool package_gate_is_checked(const struct package_gate *g)
{
	if (g->request.kind == PACKAGE_FILEMETA)
		return g->request.form == FORM_MAVEN_POM && g->registry != NULL;
	return g->request.kind == PACKAGE_FILE && g->request.form != FORM_GIT_PACK &&
	       g->request.form != FORM_GIT_DUMB;
}

static bool gate_file_is_pinned(const struct package_gate *g)
{
	for (size_t i = 0; i < COUNT(g->answer.pins); i++)
		if (g->answer.pins[i].n > 0)
			return true;
	return false;
}

/* The order matters: offline sessions and pins that cannot be checked are refused before the server
 * is asked. */
static void gate_file_download(struct package_gate *g)
{
	struct gateway *x = g->x;
	struct gateway_tap_want want = { .expected = digests, .on_end = on_tap_end, .arg = g };
	struct err e = { 0 };

	if (packages_cache_only(g->policy)) {
		package_gate_refuse(g, "mode",
				    "the package cache does not have this file, and nothing is "
				    "fetched in this session");
		return;
	}
	want.nexpected = g->request.kind == PACKAGE_FILE ? gate_file_find_digests(g) : 0;
	if (want.nexpected == 0 && g->request.kind == PACKAGE_FILE && gate_file_is_pinned(g)) {
		package_gate_refuse(g, "pins",
				    "no digest of this file is pinned that can be checked");
		return;
	}
	for (size_t i = 0; i < want.nexpected; i++) {
		if (digests[i].alg != DIGEST_H1)
			continue;
		if (want.nexpected > 1)
			package_gate_refuse(g, "pins",
					    "more than one hash of this module is pinned");
		else
			package_gate_zip(g, -1, 0);
		return;
	}
	want.has_size = g->request.kind == PACKAGE_FILE && g->has_facts && g->facts.size > 0;
	want.size = g->facts.size;
	want.store = g->file_key != NULL && g->follow.download != NULL;
	want.key = (struct cache_key){ g->scope, g->registry_text, g->file_key };
	want.stored = want.store ? package_download_stored(&g->follow) : NULL;
	g->cached = cache_link_is_open(x->session->egress) && g->file_key != NULL
			    ? PACKAGE_CACHE_MISS
			    : PACKAGE_CACHE_BYPASS;
	/* unless the tap says something else */
	g->result = x->r.method == HTTP1_HEAD ? PACKAGE_RESULT_PASSED : PACKAGE_RESULT_FAILED;
	if (x->r.method != HTTP1_HEAD && gateway_tap_set(x, &want, &e) < 0) {
		package_gate_fail(g, 503, e.msg);
		return;
	}
	package_gate_send(g);
}

/* ---- from the cache */

/* The object does not have the digest in its key: drops the view. */
static void on_bad(void *arg)
{
	struct package_gate *g = arg;

	g->result = PACKAGE_RESULT_HASH_MISMATCH;
	g->verified = false;
	cache_drop(g->x->session->egress,
		   &(struct cache_key){ g->scope, g->registry_text, g->file_key });
}

/* The ETag is the digest, so it is the same whichever server the file came from. */
static void gate_file_serve(struct package_gate *g, struct cache_found *found)
{
	struct gateway *x = g->x;
	char etag[2 + 2 * sizeof(found->sha256) + 1 + 8];
	char text[DIGEST_TEXT_MAX];

	g->cached = PACKAGE_CACHE_HIT;
	g->result = PACKAGE_RESULT_DOWNLOADED;
	g->verified = true;
	g->bytes = found->size;
	g->checksum.alg = DIGEST_SHA256;
	memcpy(g->checksum.bytes, found->sha256, sizeof(found->sha256));
	digest_write(&g->checksum, text);
	(void)snprintf(etag, sizeof(etag), "\"%.64s\"", text + strlen("sha256:"));
	gateway_defer(x);
	gateway_file_serve(x, &(struct gateway_content){ .type = found->type,
							 .etag = etag,
							 .last_modified = found->last_modified,
							 .fd = TAKE_FD(found->fd),
							 .size = found->size,
							 .expected = g->expected.alg == DIGEST_H1
									     ? NULL
									     : &g->expected,
							 .on_bad = on_bad,
							 .arg = g });
}

static uint64_t gate_file_moved(const struct package_follow *f)
{
	const struct package_gate *g = f->done.arg;

	return g->x->bytes_in;
}

/* Without an error the leader has ended, and the cache is asked again. With one it took too long.
 */
static void on_followed(struct completion *c, const struct err *e)
{
	struct package_gate *g = c->arg;

	gateway_wait(g->x, GATEWAY_ANSWER_MS);
	if (e == NULL)
		gate_file_find_file(g);
	else if (!package_download_wait_on(&g->follow))
		gate_file_download(g);
}

/* Digests by other algorithms are compared when the bytes are sent. */
static bool gate_file_is_expected(const struct package_gate *g, const struct cache_found *found)
{
	return g->expected.alg != DIGEST_SHA256 ||
	       memcmp(g->expected.bytes, found->sha256, sizeof(found->sha256)) == 0;
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;
	char key[KEY_MAX + PACKAGE_REGISTRY_TEXT + CACHE_SCOPE_MAX];
	bool alone = false;
	int n;

	if (found != NULL && found->fd >= 0 && gate_file_is_expected(g, found)) {
		if (!package_gate_fits(g, found->size))
			return;
		if (g->expected.alg == DIGEST_H1)
			package_gate_zip(g, TAKE_FD(found->fd), found->size);
		else
			gate_file_serve(g, found);
		return;
	}
	if (e != NULL || packages_cache_only(g->policy)) {
		gate_file_download(g);
		return;
	}
	n = snprintf(key, sizeof(key), "%s %s %s", g->scope, g->registry_text, g->file_key);
	g->follow.done.on_done = on_followed;
	g->follow.done.arg = g;
	g->follow.moved = gate_file_moved;
	if (n <= 0 || n >= (int)sizeof(key) ||
	    package_download_join(g->x->session, &g->follow, key, &alone) || alone)
		gate_file_download(g);
}

/* The key of the file in the cache: where it is, and its digest. False: it has none. */
static bool gate_file_make_key(struct package_gate *g)
{
	const struct gateway *x = g->x;
	char text[DIGEST_TEXT_MAX], name[HOST_MAX], key[KEY_MAX];
	int n;

	if (g->file_key != NULL)
		return true;
	if (!digest_is_strong(&g->expected) || g->registry == NULL)
		return false;
	digest_write(&g->expected, text);
	endpoint_name(&x->endpoint, name);
	n = snprintf(key, sizeof(key), "%s://%s:%u%s%s%s %s", x->tls ? "https" : "http", name,
		     x->endpoint.port, x->path, x->query != NULL ? "?" : "",
		     x->query != NULL ? x->query : "", text);
	if (n <= 0 || n >= (int)sizeof(key))
		return false;
	g->file_key = strdup(key);
	return g->file_key != NULL;
}

static void gate_file_find_file(struct package_gate *g)
{
	struct egress *egress = g->x->session->egress;

	if (g->request.kind == PACKAGE_FILEMETA && g->registry != NULL) {
		package_gate_copy(g);
		return;
	}
	if (!gate_file_make_key(g)) {
		gate_file_download(g);
		return;
	}
	g->find.on_done = on_found;
	g->find.arg = g;
	cache_find(egress, g->x->session->share.tenant->name, &g->find,
		   &(struct cache_key){ g->scope, g->registry_text, g->file_key });
}

/* ---- the decision */

/* The digest that the bytes must have: of the registry if it is strong, else of a pin. SHA-1 of a
 * registry is better than nothing: only the author of a file can make another one with the same. */
static void gate_file_expect(struct package_gate *g)
{
	if (g->has_facts && digest_is_strong(&g->facts.digest))
		g->expected = g->facts.digest;
	if (g->expected.alg == DIGEST_NONE && gate_file_find_digests(g) == 1)
		g->expected = digests[0];
	if (g->expected.alg == DIGEST_NONE && g->has_facts && !gate_file_is_pinned(g))
		g->expected = g->facts.digest;
	if (!package_gate_is_checked(g))
		g->expected.alg = DIGEST_NONE;
	if (gate_file_is_pinned(g))
		g->origin = PACKAGE_BY_PIN;
	else if (g->origin == PACKAGE_BY_NONE && g->expected.alg != DIGEST_NONE)
		g->origin = PACKAGE_BY_INDEX;
}

/* No digest of it is known: may it pass? */
static bool gate_file_is_refused_unverified(struct package_gate *g)
{
	const struct package_question q = { .registry = g->registry, .request = &g->request };

	return package_gate_is_checked(g) && !packages_cache_only(g->policy) &&
	       !gate_file_is_pinned(g) && gate_file_find_digests(g) == 0 &&
	       !package_judge_unverified(g->policy, &q, &g->answer);
}

void package_gate_file_decide(struct package_gate *g)
{
	package_gate_judge(g);
	if (g->answer.verdict != PACKAGE_ALLOW) {
		if (!package_gate_probe(g))
			package_gate_refuse_judged(g, g->answer.reason[0] != '\0'
							      ? NULL
							      : "nothing is known of this file");
		return;
	}
	if (g->changed) {
		package_gate_refuse(g, "registries",
				    "the registry changed what it says of this file: its digest "
				    "or time is not what it was");
		return;
	}
	gate_file_expect(g);
	if (g->expected.alg != DIGEST_NONE && !package_answer_accepts(&g->answer, &g->expected)) {
		package_gate_refuse(g, "pins",
				    "the registry's digest of this file is not the pinned one");
		return;
	}
	if (gate_file_is_refused_unverified(g)) {
		package_gate_refuse_judged(g, NULL);
		return;
	}
	if (g->request.kind == PACKAGE_FILE && g->has_facts && g->facts.size > 0 &&
	    !package_gate_fits(g, g->facts.size))
		return;
	gate_file_find_file(g);
}

void package_gate_file_known(struct package_gate *g)
{
	package_gate_seen(g);
}

/* Texts of the facts belong to g->doc. */
static bool gate_file_look_up(struct package_gate *g)
{
	const struct package_meta *m = g->doc->meta;
	const struct package_request *q = &g->request;

	if (q->file[0] != '\0' && q->kind == PACKAGE_FILE &&
	    package_meta_find_file(m, q->file, &g->facts))
		return true;
	/* pypi has several files of a version, and a file must be the listed one */
	if (q->ecosystem == ECO_PYPI && q->kind == PACKAGE_FILE)
		return false;
	return package_meta_find_version(m, q->version, &g->facts);
}

static void on_view(struct package_gate *g)
{
	const struct package_view *v = g->wait.view;
	struct package_source source = g->source;
	char why[POLICY_REASON_MAX];

	if (v->status != 200 || g->doc == NULL) {
		package_gate_no_view(g, v);
		return;
	}
	g->has_facts = gate_file_look_up(g);
	if (!g->has_facts && !package_view_is_fresh(v) && g->wait.any_age) {
		package_gate_ask(g, &source, false, false, on_view);
		return;
	}
	if (!g->has_facts || g->facts.foreign) {
		(void)snprintf(why, sizeof(why), "%.120s is not in the registry's metadata",
			       g->request.file[0] != '\0' ? g->request.file : g->request.written);
		package_gate_refuse(g, "registries", why);
		return;
	}
	if (package_meta_quarantined(g->doc->meta)) {
		package_gate_refuse(g, "registries",
				    "the registry has put this package into quarantine");
		return;
	}
	g->changed = package_view_is_changed(v, g->facts.file[0] != '\0' ? g->facts.file
									 : g->facts.version);
	g->exists = true;
	if (!gate_file_is_pinned(g) && package_gate_has_sums(g))
		package_gate_sums(g);
	else
		package_gate_file_known(g);
}

/* A pin of one digest is enough to believe the file. */
static bool gate_file_is_known_by_pin(struct package_gate *g)
{

	if (g->answer.verdict != PACKAGE_ALLOW || gate_file_find_digests(g) != 1 ||
	    !digest_is_strong(&digests[0]) || digests[0].alg == DIGEST_H1)
		return false;
	g->expected = digests[0];
	return true;
}

/* The digest of a blob is its name. */
static void gate_file_take_digest_of_name(struct package_gate *g)
{
	const char *v = g->request.version;

	if (g->request.form == FORM_OCI_BLOB || g->request.form == FORM_GIT_LFS_OBJECT)
		if (!digest_read(v, strlen(v), &g->expected))
			(void)digest_read_hex(DIGEST_SHA256, v, strlen(v), &g->expected);
	if (g->expected.alg != DIGEST_NONE)
		g->origin = PACKAGE_BY_NAME;
}

void package_gate_file(struct package_gate *g)
{
	struct package_source source;

	if (g->answer.verdict == PACKAGE_REFUSE) {
		package_gate_refuse_judged(g, NULL);
		return;
	}
	if (gate_file_is_known_by_pin(g)) {
		package_gate_file_decide(g);
		return;
	}
	if (g->registry != NULL && g->request.form != FORM_GO_INFO &&
	    package_source_of(g->registry, &g->request, &source)) {
		package_gate_ask(g, &source, true, false, on_view);
		return;
	}
	if (g->registry != NULL && g->request.ecosystem == ECO_APT && !g->is_files) {
		package_gate_apt(g);
		return;
	}
	gate_file_take_digest_of_name(g);
	g->has_facts = true; /* none is all that will be known */
	g->facts = (struct package_facts){ .version = "", .file = "" };
	if (!gate_file_is_pinned(g) && package_gate_has_sums(g))
		package_gate_sums(g);
	else
		package_gate_file_known(g);
}
