/* package_gate_sums.c - the digest of a file that no metadata names; see package_gate_base.h.
 *
 * Maven: a file has checksum files beside it, of which the strongest that exists counts. Go: the
 * checksum database of the registry has the hash of each public module. egress asks for them
 * itself, as for all metadata, and keeps them. Where there is none, the file goes on without a
 * digest, and the policy decides (packages.unverified). An answer that cannot be read, or none at
 * all, is an error: it must not turn a file that has a digest into one that has none. */
#include "package_gate_base.h"

#include <string.h>

static const struct {
	const char *ending;
	enum digest_alg alg;
} checksums[] = { { ".sha512", DIGEST_SHA512 },
		  { ".sha256", DIGEST_SHA256 },
		  { ".sha1", DIGEST_SHA1 } };

static bool is_snapshot(const struct package_request *q)
{
	static const char end[] = "-SNAPSHOT";
	size_t n = strlen(q->version);

	return n >= sizeof(end) - 1 && strcmp(q->version + n - (sizeof(end) - 1), end) == 0;
}

/* The registry does not have it, or the cache, which is all that may be asked. A server of files
 * says 403 of what it does not have, if it may not be listed. */
static bool is_absent(const struct package_view *v)
{
	return (v->status == 404 || v->status == 403 || v->status == 0) && !v->is_denied;
}

/* Nothing of documents is needed any more. */
void package_gate_let_go(struct package_gate *g)
{
	package_view_put(&g->wait);
	package_document_drop(g->doc);
	g->doc = NULL;
	(void)resource_share_documents(&g->x->session->share, g->counted, 0);
	g->counted = 0;
}

static void finish(struct package_gate *g, const struct digest *found)
{
	if (found != NULL) {
		g->facts.digest = *found;
		g->exists = true;
		package_gate_uncount_name(g);
	} else if (!package_gate_may_ask(g)) {
		package_gate_refuse_new(g);
		return;
	}
	package_gate_let_go(g);
	package_gate_file_known(g);
}

/* ---- Maven */

static void try_next(struct package_gate *g);

static void on_checksum(struct package_gate *g)
{
	const struct package_view *v = g->wait.view;
	struct package_facts f;

	if (is_absent(v)) {
		g->sums_asked++;
		try_next(g);
		return;
	}
	if (v->status != 200 || g->doc == NULL || package_meta_count(g->doc->meta) != 1) {
		package_gate_no_view(g, v);
		return;
	}
	package_meta_get(g->doc->meta, 0, &f);
	if (f.digest.alg != checksums[g->sums_asked].alg) {
		package_gate_fail(g, 502, "the registry's checksum file has no such checksum");
		return;
	}
	g->origin = PACKAGE_BY_CHECKSUM_FILE;
	finish(g, &f.digest);
}

static void try_next(struct package_gate *g)
{
	struct package_source source;

	g->asked = 0; /* the number of algorithms is the bound */
	if (g->sums_asked == COUNT(checksums) ||
	    !package_source_checksum(
		    g->x->path, checksums[g->sums_asked].ending,
		    g->is_files ? package_source_host(g->registry, g->x->endpoint.host) : 0,
		    &source)) {
		finish(g, NULL);
		return;
	}
	package_gate_ask(g, &source, !is_snapshot(&g->request), false, on_checksum);
}

/* ---- Go */

static void on_record(struct package_gate *g)
{
	const struct package_view *v = g->wait.view;
	struct package_facts f;

	if (is_absent(v)) {
		finish(g, NULL);
		return;
	}
	if (v->status != 200 || g->doc == NULL) {
		package_gate_no_view(g, v);
		return;
	}
	if (!package_meta_find_version(g->doc->meta, g->request.version, &f)) {
		package_gate_fail(g, 502, "the checksum database answered for another version");
		return;
	}
	g->origin = PACKAGE_BY_SUMDB;
	finish(g, &f.digest);
}

/* The database is another server: the name is judged as if the program asked it. */
static bool may_tell(const struct package_gate *g)
{
	struct package_request key = g->request;
	struct package_answer answer;
	const struct package_question q = { .registry = g->registry, .request = &key };

	key.kind = PACKAGE_KEY;
	key.form = FORM_GO_SUMDB;
	key.file[0] = '\0';
	package_judge(g->policy, &q, &answer);
	return answer.verdict == PACKAGE_ALLOW;
}

/* ---- both */

bool package_gate_has_sums(const struct package_gate *g)
{
	if (g->registry == NULL || g->registry->ecosystem != g->request.ecosystem)
		return false;
	if (g->request.ecosystem == ECO_GO)
		return g->request.form == FORM_GO_ZIP && g->registry->sumdb != NULL && may_tell(g);
	return g->request.ecosystem == ECO_MAVEN && package_gate_is_checked(g);
}

void package_gate_sums(struct package_gate *g)
{
	struct package_source source;

	/* Its texts belong to a document that goes. */
	g->facts.version = g->facts.file = "";
	if (g->request.ecosystem == ECO_MAVEN) {
		g->has_facts = true;
		package_gate_count_name(g);
		try_next(g);
		return;
	}
	g->asked = 0;
	if (package_source_sumdb(g->registry, &g->request, &source))
		package_gate_ask(g, &source, true, false, on_record);
	else
		finish(g, NULL);
}
