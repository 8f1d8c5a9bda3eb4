/* package_gate_scope.c - who shares what a request fetches: all tenants, or one, or those who
 * send the same credentials. See package_gate_base.h. A scope that is too narrow costs a fetch; one
 * that is too wide gives a private package to others. */
#include "package_gate_base.h"

#include <stdio.h>
#include <string.h>

#include "gateway_judge.h"
#include "hex.h"
#include "sha256.h"

#define CREDENTIALS_MAX ((size_t)16 * 1024)
#define CREDENTIALS_HASH 11U /* bytes of it in a scope */

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

	(void)rule;
	*found = true;
}

/* May a secret be put into a request to this host, whatever the path? */
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

/* What is fetched with credentials belongs to the tenant; with those of the program, which egress
 * cannot tell apart otherwise, to requests that have the same. */
void package_gate_set_scope(struct package_gate *g)
{
	struct gateway *x = g->x;
	const char *tenant = x->session->share.tenant->name;
	struct sha256 hasher;
	uint8_t hash[SHA256_SIZE];
	char hex[2 * CREDENTIALS_HASH + 1];

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
		hex_encode(hash, CREDENTIALS_HASH, hex);
		(void)snprintf(g->scope, sizeof(g->scope), "%.40s+%s", tenant, hex);
	} else if (is_private(g)) {
		(void)snprintf(g->scope, sizeof(g->scope), "%s", tenant[0] != '\0' ? tenant : "-");
	} else {
		(void)snprintf(g->scope, sizeof(g->scope), CACHE_SCOPE_PUBLIC);
	}
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
