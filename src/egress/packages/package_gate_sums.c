/* package_gate_sums.c - the digest of a file that no metadata names. See package_gate_base.h.
 *
 * Maven: a file has checksum files beside it, of which the strongest that exists counts. Go: the
 * checksum database of the registry has the hash of each public module. egress asks for them
 * itself, as for all metadata, and keeps them. Where there is none, the file continues without a
 * digest, and the policy decides (packages.unverified). An answer that cannot be read, or none at
 * all, is an error: it must not turn a file with a digest into one without. */
#include "egress/packages/package_gate_base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egress/gateway/gateway_file.h"
#include "egress/packages/package_apt.h"
#include "egress/packages/package_fetch.h"
#include "egress/packages/package_redirect.h"
#include "lib/base/hex.h"
#include "lib/base/str.h"
#include "lib/packages/go_h1.h"

/* ---- the digest of an apt package file. See package_gate_base.h.
 *
 * The indexes that may list the file (package_apt.h) are asked one after the other: the release of
 * the suite says which digest its Packages.gz has, and that index says which the file has. egress
 * fetches both itself, as all metadata. The signature of the release is for apt in the cell to
 * check. An index that does not match the release is fetched once more. If it still does not match,
 * or is not there, or cannot be read, it is passed over. A file that no index lists continues
 * without a digest: the lists in the cell may be older than those of the archive. */

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
static void gate_apt_finish(struct package_gate *g, const struct package_facts *found)
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

/* Ask for a document of the archive. any_age: it never changes. */
static void gate_apt_ask(struct package_gate *g, struct package_source *source, bool any_age,
			 uint64_t since_ms, void (*then)(struct package_gate *g))
{
	g->since_ms = since_ms;
	g->asked = 0; /* the number of picks is the bound */
	package_gate_ask(g, source, any_age, false, then);
}

static void gate_apt_try_next(struct package_gate *g)
{
	struct package_apt_search *s = g->apt;
	struct package_source source = { .doc = DOC_APT_RELEASE };

	s->again = false;
	if (s->at == s->n) {
		gate_apt_finish(g, NULL);
		return;
	}
	str_copy(source.target, s->picks[s->at].release);
	gate_apt_ask(g, &source, false, s->picks[s->at].since_ms, on_release);
}

/* The path of the file as the index writes it: below the archive, without escapes. */
static bool gate_apt_path_of(const struct package_gate *g, char ret[PACKAGE_FILE_MAX])
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
		gate_apt_ask(g, &source, g->wait.any_age, g->wait.view->fetched_ms + 1, on_index);
		return;
	}
	if (right && gate_apt_path_of(g, path) &&
	    package_meta_find_file(g->doc->meta, path, &found)) {
		gate_apt_finish(g, &found);
		return;
	}
	g->apt->at++;
	gate_apt_try_next(g);
}

/* Where the index with that digest is. False: the path is too long. */
static bool gate_apt_index_source(const struct package_gate *g, bool by_hash,
				  struct package_source *ret)
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
static bool gate_apt_find_index(struct package_gate *g)
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

	if (g->wait.view->status != 200 || g->doc == NULL || !gate_apt_find_index(g)) {
		g->apt->at++;
		gate_apt_try_next(g);
		return;
	}
	by_hash = package_meta_tag(g->doc->meta, "by-hash") != NULL;
	if (gate_apt_index_source(g, by_hash, &source)) {
		gate_apt_ask(g, &source, by_hash, by_hash ? 0 : g->since_ms, on_index);
		return;
	}
	g->apt->at++;
	gate_apt_try_next(g);
}

static void gate_apt_pick(struct package_gate *g)
{
	const struct package_apt_of of = package_gate_apt_of(g);

	g->apt->n = package_apt_pick(g->x->session->egress, &of, g->x->path, g->apt->picks);
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;
	const struct package_apt_of of = package_gate_apt_of(g);
	package_apt_found(g->x->session->egress, &of, found);
	gate_apt_pick(g);
	gate_apt_try_next(g);
}

void package_gate_apt(struct package_gate *g)
{
	g->has_facts = true; /* what is found is all that will be known */
	g->apt = calloc(1, sizeof(*g->apt));
	if (g->apt == NULL) {
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	gate_apt_pick(g);
	if (g->apt->n > 0 && !packages_cache_only(g->policy)) {
		gate_apt_try_next(g);
		return;
	}
	g->find.on_done = on_found;
	g->find.arg = g;
	cache_find(g->x->session->egress, g->x->session->share.tenant->name, &g->find,
		   &(struct cache_key){ g->own_scope, g->registry_text, PACKAGE_APT_KEY });
}

/* ---- a Go module whose hash is known, by a pin or the checksum database. Go's
 * hash is of the files in the zip, not of its bytes, so it cannot be checked while they pass: the
 * zip is fetched as metadata is, into memory, hashed in pieces, and sent to the cell when the hash
 * is right. One of the cache is hashed again, since cordon-egress alone says which hash of Go a
 * stored file has.
 *
 * A session's held bytes are bounded, and go asks for many modules at once: a few are fetched at a
 * time, and the others wait for their turn. */

/* Bytes of a module: as much as a session may hold (RESOURCE_SHARE_DOCUMENTS_MAX). */
#define ZIP_MAX ((uint64_t)RESOURCE_SHARE_DOCUMENTS_MAX)
#define STEP ((size_t)256 * 1024) /* bytes hashed in a turn */
#define AT_ONCE 3U		  /* modules of a session, until the program has them */

struct package_zip {
	struct package_gate *gate;
	struct package_fetch fetch;
	struct endpoint to; /* where it is, or where the registry redirects to */
	char target[PACKAGE_REDIRECT_TARGET_MAX];
	unsigned redirects;
	struct go_h1 *hash; /* owned */
	struct loop_task task;
	struct package_zip *next; /* of the session, in the order in which they came */
	bool waits;		  /* for its turn */
	size_t counted;		  /* bytes, for the session */
	bool from_cache;	  /* fetch.fd is the cache's file */
};

static void gate_zip_fetch(struct package_zip *z);

static bool on_bytes(struct package_fetch *f, size_t n)
{
	struct package_zip *z = f->arg;

	z->counted += n;
	return resource_share_documents(&z->gate->x->session->share, z->counted - n, z->counted);
}

static int gate_zip_read_at(void *arg, uint64_t at, void *ret, size_t n, struct err *e)
{
	const struct package_zip *z = arg;

	if (pread(z->fetch.fd, ret, n, (off_t)at) != (ssize_t)n)
		return err_sys(e, "zip");
	return 0;
}

static void gate_zip_store(struct package_zip *z)
{
	struct package_gate *g = z->gate;
	struct egress *egress = g->x->session->egress;
	int copy = fcntl(z->fetch.fd, F_DUPFD_CLOEXEC, 3);

	if (copy >= 0)
		cache_store_file(egress, g->x->session->share.tenant->name,
				 &(struct cache_key){ g->scope, g->registry_text, g->file_key },
				 &(struct cache_meta){ "", "", z->fetch.type }, copy, z->fetch.size,
				 NULL);
}

/* The cache's file is not the module: it was stored under a wrong name. */
static void gate_zip_drop(struct package_zip *z)
{
	struct package_gate *g = z->gate;

	cache_drop(g->x->session->egress,
		   &(struct cache_key){ g->scope, g->registry_text, g->file_key });
	z->from_cache = false;
	package_fetch_release(&z->fetch);
}

static void on_hashed(struct package_zip *z)
{
	struct package_gate *g = z->gate;
	struct digest got;

	go_h1_result(z->hash, &got);
	g->checksum = got;
	g->bytes = z->fetch.size;
	if (!digest_equal(&got, &g->expected) && z->from_cache) {
		gate_zip_drop(z);
		gate_zip_fetch(z);
		return;
	}
	if (!digest_equal(&got, &g->expected)) {
		package_gate_mismatch(g, g->origin == PACKAGE_BY_PIN
						 ? "the module's hash is not the pinned one"
						 : "the module's hash is not the one of the "
						   "checksum database");
		return;
	}
	g->verified = true;
	g->result = PACKAGE_RESULT_DOWNLOADED;
	if (z->from_cache)
		g->cached = PACKAGE_CACHE_HIT;
	else if (g->file_key != NULL && !g->is_led)
		gate_zip_store(z);
	gateway_defer(g->x);
	gateway_file_serve(g->x, &(struct gateway_content){ .type = "application/zip",
							    .fd = TAKE_FD(z->fetch.fd),
							    .size = z->fetch.size });
}

static void on_task(struct loop_task *t)
{
	struct package_zip *z = t->arg;
	struct gateway *x = z->gate->x;
	struct err e = { 0 };
	int more;

	if (z->hash == NULL) { /* its turn has come */
		gate_zip_fetch(z);
		return;
	}
	more = go_h1_step(z->hash, STEP, &e);
	resource_share_turn_moved(&x->session->share, STEP);
	if (more > 0)
		loop_defer(x->loop, &z->task);
	else if (more == 0)
		on_hashed(z);
	else if (z->from_cache) {
		gate_zip_drop(z);
		gate_zip_fetch(z);
	} else
		package_gate_fail(z->gate, 502, e.msg);
}

/* The zip is in fetch.fd. */
static void gate_zip_hash(struct package_zip *z)
{
	const struct go_h1_source source = { .size = z->fetch.size,
					     .read_at = gate_zip_read_at,
					     .arg = z };
	struct err failed = { 0 };

	go_h1_free(z->hash);
	z->hash = go_h1_new(&source, &failed);
	if (z->hash == NULL)
		package_gate_fail(z->gate, 502, failed.msg);
	else
		loop_defer(z->gate->x->loop, &z->task);
}

static void gate_zip_follow(struct package_zip *z)
{
	if (package_gate_leads(z->gate, z->fetch.location, &z->redirects, &z->to, z->target))
		gate_zip_fetch(z);
}

static void on_fetched(struct completion *c, const struct err *e)
{
	struct package_zip *z = c->arg;
	struct package_gate *g = z->gate;

	gateway_wait(g->x, GATEWAY_ANSWER_MS);
	if (e == NULL && package_redirect_is(z->fetch.status) && g->registry != NULL) {
		gate_zip_follow(z);
		return;
	}
	if (e != NULL || z->fetch.status != 200) {
		package_gate_fail(g, e != NULL || z->fetch.status < 400 ? 502 : z->fetch.status,
				  e != NULL		       ? e->msg
				  : z->fetch.reason[0] != '\0' ? z->fetch.reason
							       : "the registry does not have it");
		return;
	}
	gate_zip_hash(z);
}

static void gate_zip_fetch(struct package_zip *z)
{
	struct gateway *x = z->gate->x;
	char *credentials =
		z->gate->own_credentials && z->redirects == 0 ? package_gate_credentials(x) : NULL;
	const struct package_fetch_ask ask = { .to = &z->to,
					       .tls = x->tls,
					       .target = z->target,
					       .etag = "",
					       .modified = "",
					       .credentials = credentials,
					       .owner = &x->flow->owner,
					       .noun = "module",
					       .max = ZIP_MAX };

	package_fetch_release(&z->fetch);
	z->fetch.done.on_done = on_fetched;
	z->fetch.done.arg = z;
	z->fetch.on_bytes = on_bytes;
	z->fetch.arg = z;
	package_fetch_start(&z->fetch, x->session, &ask);
	if (credentials != NULL)
		explicit_bzero(credentials, strlen(credentials));
	free(credentials);
}

/* ---- turns */

/* Begin with those among the first of their session. */
static void gate_zip_begin_first(struct egress_session *session)
{
	unsigned n = 0;

	for (struct package_zip *z = session->package_zips; z != NULL && n < AT_ONCE;
	     z = z->next, n++) {
		if (!z->waits || session->leaving)
			continue;
		z->waits = false;
		loop_defer(session->egress->loop, &z->task);
	}
}

static void gate_zip_join(struct package_zip *z)
{
	struct package_zip **at = &z->gate->x->session->package_zips;

	while (*at != NULL)
		at = &(*at)->next;
	*at = z;
	gate_zip_begin_first(z->gate->x->session);
}

static void gate_zip_leave(struct package_zip *z)
{
	struct package_zip **at = &z->gate->x->session->package_zips;

	while (*at != z)
		at = &(*at)->next;
	*at = z->next;
	gate_zip_begin_first(z->gate->x->session);
}

void package_gate_zip(struct package_gate *g, int fd, uint64_t size)
{
	struct package_zip *z = calloc(1, sizeof(*z));

	if (z == NULL) {
		if (fd >= 0)
			fd_close(fd);
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	g->zip = z;
	z->gate = g;
	z->to = g->x->endpoint;
	if (snprintf(z->target, sizeof(z->target), "%s%s%s", g->x->path,
		     g->x->query != NULL ? "?" : "",
		     g->x->query != NULL ? g->x->query : "") >= (int)sizeof(z->target))
		z->target[0] = '\0';
	z->task = (struct loop_task){ .on_run = on_task, .arg = z };
	package_fetch_init(&z->fetch);
	z->fetch.fd = fd;
	z->fetch.size = size;
	z->from_cache = fd >= 0;
	z->waits = !z->from_cache;
	gate_zip_join(z);
	if (z->from_cache)
		gate_zip_hash(z);
}

void package_gate_zip_end(struct package_gate *g)
{
	struct package_zip *z = g->zip;

	g->zip = NULL;
	if (z == NULL)
		return;
	gate_zip_leave(z);
	loop_task_cancel(g->x->loop, &z->task);
	package_fetch_release(&z->fetch);
	go_h1_free(z->hash);
	(void)resource_share_documents(&g->x->session->share, z->counted, 0);
	free(z);
}

static const struct {
	const char *ending;
	enum digest_alg alg;
} checksums[] = { { ".sha512", DIGEST_SHA512 },
		  { ".sha256", DIGEST_SHA256 },
		  { ".sha1", DIGEST_SHA1 } };

static bool gate_sums_is_snapshot(const struct package_request *q)
{
	static const char end[] = "-SNAPSHOT";
	size_t n = strlen(q->version);

	return n >= sizeof(end) - 1 && strcmp(q->version + n - (sizeof(end) - 1), end) == 0;
}

/* The registry does not have it, or the cache, if only the cache may be asked. A file server that
 * may not be listed says 403 of a missing file. */
static bool gate_sums_is_absent(const struct package_view *v)
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

static void gate_sums_finish(struct package_gate *g, const struct digest *found)
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

static void gate_sums_try_next(struct package_gate *g);

static void on_checksum(struct package_gate *g)
{
	const struct package_view *v = g->wait.view;
	struct package_facts f;

	if (gate_sums_is_absent(v)) {
		g->sums_asked++;
		gate_sums_try_next(g);
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
	gate_sums_finish(g, &f.digest);
}

static void gate_sums_try_next(struct package_gate *g)
{
	struct package_source source;

	g->asked = 0; /* the number of algorithms is the bound */
	if (g->sums_asked == COUNT(checksums) ||
	    !package_source_checksum(
		    g->x->path, checksums[g->sums_asked].ending,
		    g->is_files ? package_source_host(g->registry, g->x->endpoint.host) : 0,
		    &source)) {
		gate_sums_finish(g, NULL);
		return;
	}
	package_gate_ask(g, &source, !gate_sums_is_snapshot(&g->request), false, on_checksum);
}

/* ---- Go */

static void on_record(struct package_gate *g)
{
	const struct package_view *v = g->wait.view;
	struct package_facts f;

	if (gate_sums_is_absent(v)) {
		gate_sums_finish(g, NULL);
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
	gate_sums_finish(g, &f.digest);
}

/* The database is another server: the name is judged as if the program asked it. */
static bool gate_sums_may_tell(const struct package_gate *g)
{
	struct package_request key = g->request;
	struct package_answer answer;
	const struct package_question q = package_gate_question(g, &key);

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
		return g->request.form == FORM_GO_ZIP && g->registry->sumdb != NULL &&
		       gate_sums_may_tell(g);
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
		gate_sums_try_next(g);
		return;
	}
	g->asked = 0;
	if (package_source_sumdb(g->registry, &g->request, &source))
		package_gate_ask(g, &source, true, false, on_record);
	else
		gate_sums_finish(g, NULL);
}
