/* package_gate_seen.c - since when this node knows a version whose registry says no time, or one
 * that its author chose; see package_gate_base.h.
 *
 * The clock of a version starts when its registry has said that it exists, never when a program
 * asks for it: else a program could ask before it is published, and it would be old enough at once.
 * Metadata that names the version, or a checksum of the file, says so. Without them (git, images,
 * some files of Maven and apt) a request whose age decides is preceded by a HEAD request of egress;
 * and any answer of 200 to the program starts the clock. */
#include "package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package_fetch.h"
#include "package_redirect.h"

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

static void ask(struct package_gate *g, bool note,
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

	(void)e;
	g->first_seen_ms = found != NULL ? found->seen_ms : 0;
	package_gate_file_decide(g);
}

/* ---- versions that claim to be older than they are */

static void on_backdated(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;

	(void)e;
	g->first_seen_ms = found != NULL ? found->seen_ms : 0;
	g->backdated = g->first_seen_ms != 0;
	package_gate_file_decide(g);
}

/* This process may have noticed it, or another one. */
static void ask_backdated(struct package_gate *g)
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
		ask(g, g->exists, on_seen);
	else if (g->registry != NULL && g->facts.has_time)
		ask_backdated(g);
	else
		package_gate_file_decide(g);
}

static void on_noted(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	(void)c;
	(void)found;
	(void)e;
}

void package_gate_seen_now(struct package_gate *g)
{
	if (!g->exists && g->first_seen_ms == 0 && package_gate_counts_sight(g))
		ask(g, true, on_noted);
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

static void fetch(struct package_probe *p);

static void follow(struct package_probe *p)
{
	if (package_gate_leads(p->gate, p->fetch.location, &p->redirects, &p->to, p->target))
		fetch(p);
}

static void on_answer(struct completion *c, const struct err *e)
{
	struct package_probe *p = c->arg;
	struct package_gate *g = p->gate;
	int status = p->fetch.status;
	char why[POLICY_REASON_MAX];

	gateway_wait(g->x, GATEWAY_ANSWER_MS);
	if (e == NULL && package_redirect_is(status)) {
		follow(p);
		return;
	}
	if (e == NULL && status == 200) {
		g->exists = true;
		package_gate_uncount_name(g);
		package_gate_probe_end(g);
		package_gate_seen(g);
		return;
	}
	(void)snprintf(why, sizeof(why), "%s",
		       e != NULL		    ? e->msg
		       : p->fetch.reason[0] != '\0' ? p->fetch.reason
						    : "the registry does not have it");
	package_gate_fail(g, e != NULL || status < 400 ? 502 : status, why);
}

static void fetch(struct package_probe *p)
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
static bool is_young(struct package_gate *g)
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
	    packages_cache_only(g->policy) || !package_gate_may_ask(g) || !is_young(g))
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
	fetch(p);
	return true;
}
