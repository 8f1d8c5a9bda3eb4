/* package_gate_copy.c - documents of a registry that are passed on as they are: indexes, signed or
 * plain metadata, metadata of one file. A copy of each goes into the cache, for sessions that take
 * packages from it alone (mode offline-cache); all others get them from the registry. A copy has no
 * digest to be checked against: it is what the registry answered last, for this scope. But apt's
 * documents that are asked for by their digest are checked, and come from the cache if it has them.
 */
#include "package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway_file.h"
#include "gateway_tap.h"
#include "hex.h"
#include "package_apt.h"
#include "sha256.h"

#define KEY_MAX CACHE_PATH_MAX
#define ACCEPT_MAX 256U /* in a key, with NUL */

/* What the request says in Accept, as a part of a key: as it is, or hashed if it is long or said
 * more than once. */
static void write_accept(const struct gateway *x, char ret[ACCEPT_MAX])
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
static bool make_key(struct package_gate *g)
{
	const struct gateway *x = g->x;
	char name[HOST_MAX], accept[ACCEPT_MAX], key[KEY_MAX];
	int n;

	write_accept(x, accept);
	endpoint_name(&x->endpoint, name);
	n = snprintf(key, sizeof(key), "%s://%s:%u%s%s%s copy %s", x->tls ? "https" : "http", name,
		     x->endpoint.port, x->path, x->query != NULL ? "?" : "",
		     x->query != NULL ? x->query : "", accept);
	free(g->file_key);
	g->file_key = n > 0 && n < (int)sizeof(key) ? strdup(key) : NULL;
	return g->file_key != NULL;
}

/* The digest that the path itself names, or that a checksum file names. */
static bool is_by_digest(const struct package_gate *g, struct digest *ret)
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
static void note_index(struct package_gate *g, const uint8_t *sha256)
{
	const struct package_apt_of of = package_gate_apt_of(g);

	if (g->request.ecosystem == ECO_APT && !g->is_files)
		package_apt_note(g->x->session->egress, &of, g->x->path, sha256);
}

/* It is not what its path says. */
static void on_bad(void *arg)
{
	struct package_gate *g = arg;

	g->result = PACKAGE_CUT;
	cache_drop(g->x->session->egress,
		   &(struct cache_key){ g->scope, g->registry_text, g->file_key });
}

static void pass(struct package_gate *g);

static void refuse_absent(struct package_gate *g, bool is_running)
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
	bool checked = is_by_digest(g, &digest);

	if ((found == NULL || found->fd < 0) && !packages_cache_only(g->policy)) {
		pass(g);
		return;
	}
	if (found == NULL || found->fd < 0) {
		refuse_absent(g, e == NULL);
		return;
	}
	g->cached = PACKAGE_CACHE_HIT;
	g->result = PACKAGE_PASSED;
	note_index(g, NULL);
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

	(void)x;
	if (end->result == TAP_MISMATCH && package_gate_is_checked(g))
		g->result = PACKAGE_MISMATCH;
	else if (end->result == TAP_CUT || end->result == TAP_MISMATCH)
		g->result = PACKAGE_CUT;
	else if (end->result != TAP_NONE)
		note_index(g, end->sha256);
}

static void pass(struct package_gate *g)
{
	struct gateway *x = g->x;
	struct digest digest;
	const struct gateway_tap_want want = { .expected = &digest,
					       .nexpected = is_by_digest(g, &digest) ? 1 : 0,
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
	bool keyed = package_gate_copies(g) && make_key(g);
	struct digest digest;

	key.path = g->file_key;
	g->result = PACKAGE_PASSED;
	if (keyed && (packages_cache_only(g->policy) || is_by_digest(g, &digest))) {
		g->find.on_done = on_found;
		g->find.arg = g;
		cache_find(x->session->egress, x->session->share.tenant->name, &g->find, &key);
	} else if (packages_cache_only(g->policy)) {
		package_gate_refuse(g, "mode",
				    "this session takes packages from the cache only, which does "
				    "not keep this");
	} else if (keyed) {
		pass(g);
	} else {
		package_gate_send(g);
	}
}
