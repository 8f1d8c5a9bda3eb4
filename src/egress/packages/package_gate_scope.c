/* package_gate_scope.c - who shares the answers to a request: all tenants, or one, or those who
 * send the same credentials. See package_gate_base.h and doc/security/shared-state.md. A too narrow
 * scope costs a fetch. A too wide one gives a private package to others, or lets one tenant decide
 * what others get. So whatever decides an answer beside the registry itself is part of the scope:
 * credentials, the way to the registry, and hosts that the policy adds to it. */
#include "egress/packages/package_gate_base.h"

#include <stdio.h>
#include <string.h>

#include "egress/gateway/gateway_judge.h"
#include "lib/base/hex.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

#define CREDENTIALS_MAX ((size_t)16 * 1024)
#define SCOPE_HASH 11U /* bytes of a hash in a scope */

bool package_gate_is_credential(struct http1_span name)
{
	return http1_span_is_nocase(name, "authorization") ||
	       http1_span_is_nocase(name, "cookie") || http1_span_is_nocase(name, "x-api-key") ||
	       http1_span_is_nocase(name, "npm-otp") ||
	       http1_span_is_nocase(name, "private-token") ||
	       http1_span_is_nocase(name, "job-token");
}

static void on_rule(const struct policy_rule *rule, void *arg)
{
	bool *found = arg;

	*found = true;
}

/* May a secret be put into a request to this host, on any path? */
static bool has_secrets(const struct gateway *x, const struct package_host *h)
{
	const struct egress_session *session = x->session;
	const struct policy_target to = { .host = h->name,
					  .port = package_registry_port(h, x->tls) };
	struct mask_pick known;
	bool found = false;

	policy_secrets(session->policy, &to, on_rule, &found);
	return found ||
	       secrets_known_there(session->secrets, session->policy, &session->sent, &to, &known);
}

/* Does a rule set headers that hold no secret of Cordon? They may be credentials all the same. */
static bool sets_headers(const struct policy *p)
{
	for (size_t i = 0; i < policy_rules(p); i++)
		if (policy_rule(p, i)->nset > 0 && policy_rule(p, i)->nsecrets == 0)
			return true;
	return false;
}

/* Egress asks any host of the registry for what belongs to one request, and follows redirects
 * between them: so what rules put into a request to one of them counts for all. */
static bool is_private(const struct package_gate *g)
{
	const struct gateway *x = g->x;
	const struct package_registry *r = g->registry;

	if (r == NULL || r->is_private || packages_cache_is_private(g->policy) ||
	    has_secrets(x, &r->host) || sets_headers(x->session->policy))
		return true;
	for (size_t i = 0; i < r->nfiles; i++)
		if (has_secrets(x, &r->files[i]))
			return true;
	return false;
}

/* Only the registry itself can have answered: not a proxy that the tenant chose, and not a program
 * on the way. Registries are asked by their names, never by an address. */
static bool is_from_registry(const struct gateway *x)
{
	return x->tls && policy_proxy(x->session->policy)->host == NULL;
}

/* The part of the path before names there: it decides which package a path is. */
static const char *path_of(const struct package_host *h)
{
	return h->path != NULL ? h->path : "";
}

static bool gate_scope_holds(const struct package_registry *r, const struct package_host *h)
{
	for (size_t i = 0; r != NULL && i < r->nfiles; i++)
		if (r->files[i].port == h->port && strcmp(r->files[i].name, h->name) == 0 &&
		    strcmp(path_of(&r->files[i]), path_of(h)) == 0)
			return true;
	return false;
}

/* The hosts for files that a policy adds to a registry, hashed. False: it adds none. They answer
 * for the registry: their answers count for policies that name the same ones. */
static bool hash_added(const struct package_registry *r, char hex[2 * SCOPE_HASH + 1])
{
	bool files = false, adds = false;
	const struct package_registry *known = packages_registry(
		NULL, r->host.name, package_registry_port(&r->host, true), r->path, &files);
	struct sha256 hasher;
	uint8_t hash[SHA256_SIZE];
	char port[16];

	sha256_init(&hasher);
	for (size_t i = 0; i < r->nfiles; i++) {
		const struct package_host *h = &r->files[i];
		int n = snprintf(port, sizeof(port), ":%u", h->port);

		adds = adds || files || !gate_scope_holds(known, h);
		sha256_add(&hasher, h->name, strlen(h->name));
		sha256_add(&hasher, port, (size_t)n);
		sha256_add(&hasher, path_of(h), strlen(path_of(h)) + 1);
	}
	sha256_end(&hasher, hash);
	hex_encode(hash, SCOPE_HASH, hex);
	return adds;
}

static void set_own(const struct package_gate *g, char ret[CACHE_SCOPE_MAX])
{
	const char *tenant = g->x->session->share.tenant->name;

	str_copy_to(ret, CACHE_SCOPE_MAX, tenant[0] != '\0' ? tenant : "-");
}

/* A document fetched with credentials belongs to the tenant. One fetched with those of the program,
 * which egress cannot tell apart otherwise, belongs to requests with equal ones. */
void package_gate_set_scope(struct package_gate *g)
{
	struct gateway *x = g->x;
	const char *tenant = x->session->share.tenant->name;
	struct sha256 hasher;
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SCOPE_HASH + 1];

	sha256_init(&hasher);
	for (size_t i = 0; i < x->r.headers_n; i++) {
		if (!package_gate_is_credential(x->r.headers[i].name))
			continue;
		g->own_credentials = true;
		if (x->r.headers[i].value.n > 0)
			sha256_add(&hasher, x->r.headers[i].value.p, x->r.headers[i].value.n);
		sha256_add(&hasher, "", 1);
	}
	if (g->own_credentials) {
		sha256_end(&hasher, hash);
		hex_encode(hash, SCOPE_HASH, hex);
		(void)snprintf(g->scope, sizeof(g->scope), "%.40s+%s", tenant, hex);
		memcpy(g->own_scope, g->scope, sizeof(g->scope));
		return;
	}
	set_own(g, g->own_scope);
	if (is_private(g) || !is_from_registry(x))
		memcpy(g->scope, g->own_scope, sizeof(g->scope));
	else if (hash_added(g->registry, hex))
		(void)snprintf(g->scope, sizeof(g->scope), CACHE_SCOPE_PUBLIC "+%s", hex);
	else
		(void)snprintf(g->scope, sizeof(g->scope), CACHE_SCOPE_PUBLIC);
}

/* The program's credentials as header lines. NULL: none, or too many. */
char *package_gate_credentials(const struct gateway *x)
{
	struct buf b = BUF_INIT(CREDENTIALS_MAX);
	struct err e;
	char *lines = NULL;

	for (size_t i = 0; i < x->r.headers_n; i++) {
		const struct http1_header *h = &x->r.headers[i];

		if (package_gate_is_credential(h->name))
			buf_printf(&b, "%.*s: %.*s\r\n", (int)h->name.n, h->name.p, (int)h->value.n,
				   h->value.n > 0 ? h->value.p : "");
	}
	if (b.len > 0 && buf_check(&b, &e) == 0)
		lines = strdup(buf_text(&b));
	if (b.data != NULL)
		explicit_bzero(b.data, b.len);
	buf_release(&b);
	return lines;
}
