/* package_gate_apt.c - the digest of an apt package file; see package_gate_base.h.
 *
 * The indexes that may list the file (package_apt.h) are asked one after the other: the release of
 * the suite says which digest its Packages.gz has, and that index says which the file has. egress
 * fetches both itself, as all metadata. The signature of the release is for apt in the cell to
 * check. An index that is not what the release says is fetched once more; if it is still not, or is
 * not there, or cannot be read, it is passed over. A file that no index lists goes on without a
 * digest: the lists in the cell may be older than those of the archive. */
#include "package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hex.h"
#include "package_apt.h"

struct package_apt_search {
	struct package_apt_pick picks[PACKAGE_APT_PICKS];
	size_t n, at;
	struct digest index; /* that the release names */
	bool again;	     /* it was something else, and was asked for again */
};

void package_gate_apt_end(struct package_gate *g)
{
	free(g->apt);
	g->apt = NULL;
}

struct package_apt_of package_gate_apt_of(const struct package_gate *g)
{
	return (struct package_apt_of){ .tenant = g->x->session->share.tenant->name,
					.scope = g->own_scope,
					.registry = g->registry_text };
}

/* Facts say the digest and the size, or nothing. Their texts are constants: no document is needed
 * any more. */
static void finish(struct package_gate *g, const struct package_facts *found)
{
	g->facts = (struct package_facts){ .version = "", .file = "" };
	if (found != NULL) {
		g->facts.digest = found->digest;
		g->facts.size = found->size;
		g->exists = true;
	}
	package_gate_let_go(g);
	package_gate_apt_end(g);
	package_gate_file_known(g);
}

static void on_release(struct package_gate *g);

/* Asks for a document of the archive; any_age: it never changes. */
static void ask(struct package_gate *g, struct package_source *source, bool any_age,
		uint64_t since_ms, void (*then)(struct package_gate *g))
{
	g->since_ms = since_ms;
	g->asked = 0; /* the number of picks is the bound */
	package_gate_ask(g, source, any_age, false, then);
}

static void try_next(struct package_gate *g)
{
	struct package_apt_search *s = g->apt;
	struct package_source source = { .doc = DOC_APT_RELEASE };

	s->again = false;
	if (s->at == s->n) {
		finish(g, NULL);
		return;
	}
	(void)snprintf(source.target, sizeof(source.target), "%s", s->picks[s->at].release);
	ask(g, &source, false, s->picks[s->at].since_ms, on_release);
}

/* The path of the file as the index writes it: below the archive, without escapes. */
static bool path_of(const struct package_gate *g, char ret[PACKAGE_FILE_MAX])
{
	const char *p = g->x->path + g->apt->picks[g->apt->at].base;
	struct err e;
	size_t n = 0;

	for (; *p != '\0'; p++) {
		uint8_t byte = (uint8_t)*p;

		if (*p == '%') {
			if (p[1] == '\0' || hex_decode(p + 1, 2, &byte, 1, &e) < 0)
				return false;
			p += 2;
		}
		if (byte == '\0' || n + 1 == PACKAGE_FILE_MAX)
			return false;
		ret[n++] = (char)byte;
	}
	ret[n] = '\0';
	return true;
}

static void on_index(struct package_gate *g)
{
	char path[PACKAGE_FILE_MAX];
	struct package_source source = g->source;
	struct package_facts found;
	bool there = g->wait.view->status == 200 && g->doc != NULL;
	bool right = there && digest_equal(&g->doc->raw, &g->apt->index);

	if (there && !right && !g->apt->again) {
		g->apt->again = true;
		ask(g, &source, g->wait.any_age, g->wait.view->fetched_ms + 1, on_index);
		return;
	}
	if (right && path_of(g, path) && package_meta_find_file(g->doc->meta, path, &found)) {
		finish(g, &found);
		return;
	}
	g->apt->at++;
	try_next(g);
}

/* Where the index with that digest is. False: the path is too long. */
static bool index_source(const struct package_gate *g, bool by_hash, struct package_source *ret)
{
	const struct package_apt_search *s = g->apt;
	char text[DIGEST_TEXT_MAX];
	int n;

	*ret = (struct package_source){ .doc = DOC_APT_PACKAGES };
	digest_write(&s->index, text);
	n = snprintf(ret->target, sizeof(ret->target), "%s/%s%s", s->picks[s->at].index,
		     by_hash ? "by-hash/SHA256/" : "Packages.gz",
		     by_hash ? text + strlen("sha256:") : "");
	return n > 0 && n < (int)sizeof(ret->target);
}

/* The release of the pick names the index by its path below the suite. */
static bool find_index(struct package_gate *g)
{
	struct package_apt_search *s = g->apt;
	const struct package_apt_pick *pick = &s->picks[s->at];
	size_t suite = (size_t)(strrchr(pick->release, '/') - pick->release);
	char name[PACKAGE_APT_PATH_MAX + sizeof("/Packages.gz")];
	struct package_facts facts;

	(void)snprintf(name, sizeof(name), "%s/Packages.gz", pick->index + suite);
	if (!package_meta_find_file(g->doc->meta, name + 1, &facts))
		return false;
	s->index = facts.digest;
	return s->index.alg == DIGEST_SHA256;
}

static void on_release(struct package_gate *g)
{
	struct package_source source;
	bool by_hash;

	if (g->wait.view->status != 200 || g->doc == NULL || !find_index(g)) {
		g->apt->at++;
		try_next(g);
		return;
	}
	by_hash = package_meta_tag(g->doc->meta, "by-hash") != NULL;
	if (index_source(g, by_hash, &source)) {
		ask(g, &source, by_hash, by_hash ? 0 : g->since_ms, on_index);
		return;
	}
	g->apt->at++;
	try_next(g);
}

static void pick(struct package_gate *g)
{
	const struct package_apt_of of = package_gate_apt_of(g);

	g->apt->n = package_apt_pick(g->x->session->egress, &of, g->x->path, g->apt->picks);
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;
	const struct package_apt_of of = package_gate_apt_of(g);
	(void)e;
	package_apt_found(g->x->session->egress, &of, found);
	pick(g);
	try_next(g);
}

void package_gate_apt(struct package_gate *g)
{
	g->has_facts = true; /* what is found is all that will be known */
	g->apt = calloc(1, sizeof(*g->apt));
	if (g->apt == NULL) {
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	pick(g);
	if (g->apt->n > 0 && !packages_cache_only(g->policy)) {
		try_next(g);
		return;
	}
	g->find.on_done = on_found;
	g->find.arg = g;
	cache_find(g->x->session->egress, g->x->session->share.tenant->name, &g->find,
		   &(struct cache_key){ g->own_scope, g->registry_text, PACKAGE_APT_KEY });
}
