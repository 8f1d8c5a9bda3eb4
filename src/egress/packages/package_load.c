/* package_load.c - theory of operation
 *
 * Finding: the cache is asked, also for documents that this process holds: one that the cache lost
 * (gc), or does not have yet, is stored again. A fresh document is taken as it is. Fetching: the
 * registry is asked, with the validators of the cache's document. Redirects are followed to hosts
 * of the registry only. If it does not answer, or with a status of 500 and more, the cache's
 * document is taken for a day (stale). Reading: the document is read in pieces, one per turn of the
 * loop, hashed on the way. One that cannot be read is no document, and is not kept. A document that
 * the cache has and this process has not is read before it is fetched again, to compare both. A
 * fetched document is handed to the cache after that.
 *
 * Bounds: fetches of a session and a tenant at a time, bytes of documents of both, time. */
#include "egress/packages/package_load.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egress/packages/package_fetch.h"
#include "egress/packages/package_redirect.h"
#include "lib/base/clock.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

/* The cost of one package_load_read(), in a session's turn. */
#define PACKAGE_LOAD_TURN_BYTES ((uint64_t)512 * 1024)

struct package_load {
	struct package_view *view;
	struct egress_session *session;
	enum { LOAD_FINDING, LOAD_QUEUED, LOAD_FETCHING, LOAD_READING } state;
	bool any_age;
	uint64_t since_ms;
	struct endpoint to;
	char target[PACKAGE_REDIRECT_TARGET_MAX]; /* the document's, or where it redirects to */
	unsigned redirects;
	char *credentials; /* owned, wiped. NULL: none */
	struct owner owner;
	struct cache_call call;
	struct package_fetch fetch;
	size_t counted; /* bytes of the fetch and facts, counted for the session */
	size_t facts;	/* of them: facts */
	bool named;	/* counted among new names */
	bool fetching;	/* counted among the fetches of session and tenant */
	/* The cache's document. fd -1: none. */
	int fd;
	uint64_t size, fetched_ms;
	struct digest raw;
	/* The document being read. */
	bool is_new;		      /* fetched just now: to be stored */
	bool is_old;		      /* of the cache, read before it is fetched again */
	struct package_document *doc; /* owned */
	struct sha256 hasher;
	uint64_t at;
	bool is_read;	 /* all of it: it is compared with the document that the view has */
	size_t compared; /* facts */
	struct loop_task task;
};

/* ---- reads a document into facts, and compares them with those that the view
 * has, piece by piece. See package_load.c. */

#define PIECE ((size_t)64 * 1024)
#define PIECES 2		    /* in one call */
#define PACKED_PIECE ((size_t)4096) /* of gzip: up to a hundred times as much comes out */

/* 1: there is more. 0: all was read. -1: it cannot be read. */
static int package_load_read_piece(struct package_load *l, struct err *e)
{
	static uint8_t piece[PIECE];
	struct package_document *d = l->doc;
	size_t most = l->view->doc_kind == DOC_APT_PACKAGES ? PACKED_PIECE : sizeof(piece);
	ssize_t n = pread(d->fd, piece, most, (off_t)l->at);

	if (n < 0 || (n == 0 && l->at < d->size))
		return err_set(e, ERR_SYSTEM, "it is shorter than it was");
	if (n == 0) {
		int more = package_meta_end(d->meta, e);

		if (more != 0)
			return more;
		d->raw.alg = DIGEST_SHA256;
		sha256_end(&l->hasher, d->raw.bytes);
		return 0;
	}
	l->at += (uint64_t)n;
	sha256_add(&l->hasher, piece, (size_t)n);
	return package_meta_feed(d->meta, piece, (size_t)n, e) < 0 ? -1 : 1;
}

/* Facts grow as the registry likes: they count as documents do. */
static int package_load_read_count_facts(struct package_load *l, struct err *e)
{
	size_t now = package_meta_memory(l->doc->meta), before = l->facts;

	l->facts = now;
	l->counted += now - before;
	if (resource_share_documents(&l->session->share, l->counted - (now - before), l->counted))
		return 1;
	return err_set(e, ERR_LIMIT, "this session or its tenant uses too much metadata");
}

/* Do a bounded piece of work on l->doc: read it, then compare its facts with those of the view. 1:
 * there is more. 0: all is done. -1: it cannot be read. */
static int package_load_read(struct package_load *l, struct err *e)
{
	int more = 1;

	if (l->is_read)
		return package_view_compare(l->view, l->doc, &l->compared) ? 1 : 0;
	for (int i = 0; i < PIECES && more > 0; i++)
		more = package_load_read_piece(l, e);
	if (more > 0)
		return package_load_read_count_facts(l, e);
	l->is_read = more == 0;
	return more == 0 ? 1 : more;
}

#define STORING_NS 1000000000ULL /* a store may take that long */

static struct cache_key package_load_key_of(const struct package_view *v)
{
	return (struct cache_key){ .scope = v->scope, .registry = v->registry, .path = v->path };
}

static void package_load_end_fetching(struct package_load *l)
{
	if (!l->fetching)
		return;
	l->fetching = false;
	l->session->package_fetches--;
	l->session->share.tenant->package_fetches--;
	package_views_start_soon(l->session->egress);
}

static void package_load_free(struct package_load *l)
{
	cache_call_cancel(&l->call);
	package_fetch_release(&l->fetch);
	package_load_end_fetching(l);
	(void)resource_share_documents(&l->session->share, l->counted, 0);
	loop_task_cancel(l->session->egress->loop, &l->task);
	package_document_drop(l->doc);
	if (l->fd >= 0)
		fd_close(l->fd);
	if (l->credentials != NULL)
		explicit_bzero(l->credentials, strlen(l->credentials));
	free(l->credentials);
	free(l);
}

void package_load_cancel(struct package_view *v)
{
	struct package_load *l = v->load;

	v->load = NULL;
	if (l != NULL)
		package_load_free(l);
}

/* only: the result concerns its own session alone. l is gone after that. */
static void package_load_end_for(struct package_load *l, int status, const char *why, bool only)
{
	struct package_view *v = l->view;
	struct egress_session *session = l->session;

	v->status = status;
	v->is_denied = status != 200 && l->fetch.is_denied;
	str_copy(v->why, why);
	package_load_cancel(v);
	package_view_loaded(v, NULL, only ? session : NULL);
}

static void package_load_end(struct package_load *l, int status, const char *why)
{
	package_load_end_for(l, status, why, false);
}

/* ---- reading */

static void package_load_store(struct package_load *l, const struct package_document *d)
{
	struct package_view *v = l->view;
	const struct cache_key key = package_load_key_of(v);
	const struct cache_meta meta = { .etag = v->etag,
					 .last_modified = v->modified,
					 .type = v->type };
	int copy = fcntl(d->fd, F_DUPFD_CLOEXEC, 3);

	v->stored_ns = clock_now_ns();
	if (copy >= 0)
		cache_store_file(l->session->egress, l->session->share.tenant->name, &key, &meta,
				 copy, d->size, NULL);
}

static void package_load_fetch(struct package_load *l);

/* The registry's present answer will be compared with it. */
static void package_load_end_old(struct package_load *l)
{
	size_t facts = l->facts;

	l->is_old = false;
	package_document_drop(l->doc);
	l->doc = NULL;
	if (l->view->refs == 0) { /* no request waits for it any more, and nothing was sent */
		package_load_cancel(l->view);
		return;
	}
	(void)resource_share_documents(&l->session->share, l->counted, l->counted - facts);
	l->counted -= facts;
	l->facts = 0;
	package_load_fetch(l);
}

static void package_load_take_document(struct package_load *l)
{
	struct package_view *v = l->view;

	if (l->is_old) {
		if (digest_equal(&l->doc->raw, &l->raw)) { /* else: damaged */
			package_view_replace(v, l->doc);
			l->doc = NULL;
		}
		package_load_end_old(l);
		return;
	}
	if (l->is_new)
		package_load_store(l, l->doc);
	package_view_replace(v, l->doc);
	l->doc = NULL;
	package_load_end(l, 200, "");
}

static void on_task(struct loop_task *t)
{
	struct package_load *l = t->arg;
	struct resource_share *share = &l->session->share;
	char why[POLICY_REASON_MAX];
	struct err e = { 0 };
	int more = 1;

	if (resource_share_turn_left(share) > 0) {
		more = package_load_read(l, &e);
		resource_share_turn_moved(share, PACKAGE_LOAD_TURN_BYTES);
	}
	if (more > 0) {
		loop_defer(l->session->egress->loop, &l->task);
		return;
	}
	if (more == 0) {
		package_load_take_document(l);
		return;
	}
	if (l->is_old) {
		package_load_end_old(l);
		return;
	}
	(void)snprintf(why, sizeof(why), "the metadata of %.100s cannot be read: %.120s",
		       l->view->name, e.msg);
	package_load_end(l, 502, why);
}

static bool package_load_url_allowed(const char *url, void *arg)
{
	const struct package_view *v = arg;

	return package_hosts_hold(&v->hosts, url, NULL, NULL);
}

/* Begin to read. fd is taken over. */
static void package_load_read_document(struct package_load *l, int fd, uint64_t size)
{
	struct package_view *v = l->view;
	const struct package_meta_spec spec = { .doc = v->doc_kind,
						.name = v->name,
						.url_allowed = package_load_url_allowed,
						.arg = v };
	struct err e = { 0 };

	l->doc = calloc(1, sizeof(*l->doc));
	if (l->doc == NULL) {
		fd_close(fd);
		package_load_end(l, 503, "out of memory");
		return;
	}
	*l->doc = (struct package_document){ .refs = 1, .fd = fd, .size = size };
	l->doc->meta = package_meta_new(&spec, &e);
	if (l->doc->meta == NULL) {
		package_load_end(l, 503, "out of memory");
		return;
	}
	sha256_init(&l->hasher);
	l->at = 0;
	l->is_read = false;
	l->compared = 0;
	l->state = LOAD_READING;
	l->task = (struct loop_task){ .on_run = on_task, .arg = l };
	loop_defer(l->session->egress->loop, &l->task);
}

/* Take the cache's document. */
static void package_load_use_cached(struct package_load *l, enum package_cached how)
{
	struct package_view *v = l->view;
	int fd = TAKE_FD(l->fd);

	v->cached = how;
	if (v->doc == NULL || !digest_equal(&v->doc->raw, &l->raw)) {
		package_load_read_document(l, fd, l->size);
		return;
	}
	if (v->doc->fd < 0)
		v->doc->fd = fd;
	else
		fd_close(fd);
	package_view_confirm(v);
	package_load_end(l, 200, "");
}

/* ---- fetching */

static bool package_load_may_fetch(const struct egress_session *session)
{
	return !session->leaving && session->package_fetches < PACKAGE_VIEW_FETCHES &&
	       session->share.tenant->package_fetches < PACKAGE_VIEW_TENANT_FETCHES;
}

static bool package_load_is_checksum(enum package_doc doc)
{
	return doc == DOC_CHECKSUM || doc == DOC_GO_SUMDB;
}

/* A name that the registry may not have is counted when it is asked for: who asks may be gone
 * before the answer comes. False: too many. */
static bool package_load_count_name(struct package_load *l)
{
	const struct packages_policy *p = policy_packages(l->session->policy);
	uint64_t max = p == NULL ? 0 : packages_limits(p)->new_names;

	if (l->fd >= 0 || l->view->doc != NULL || l->named ||
	    package_load_is_checksum(l->view->doc_kind))
		return true; /* it is known, or the gate counts the name of the file itself */
	if (max > 0 && l->session->packages.new_names >= max)
		return false;
	l->named = true;
	l->session->packages.new_names++;
	return true;
}

/* The registry has it, or has not answered. */
static void package_load_uncount_name(struct package_load *l)
{
	if (l->named)
		l->session->packages.new_names--;
	l->named = false;
}

static bool on_bytes(struct package_fetch *f, size_t n)
{
	struct package_load *l = f->arg;

	l->counted += n;
	return resource_share_documents(&l->session->share, l->counted - n, l->counted);
}

/* It did not answer, or not as a registry does. */
static void package_load_no_answer(struct package_load *l, int status, const char *why, bool only)
{
	uint64_t now = clock_wall_ms();

	if (l->fd >= 0 && l->fetched_ms <= now && now - l->fetched_ms < PACKAGE_VIEW_STALE_MS)
		package_load_use_cached(l, PACKAGE_CACHE_STALE);
	else
		package_load_end_for(l, status, why, only);
}

/* Sessions with other policies share the document, so no policy is asked about another name: it is
 * refused. Files are judged by names of their own. */
static bool package_load_is_of_name(const struct package_load *l, char why[POLICY_REASON_MAX])
{
	static struct package_place place; /* too large for the stack */
	const struct packages_policy *p = policy_packages(l->session->policy);

	if (!package_redirect_place(p, &l->to, "GET", PACKAGE_META, l->target, &place)) {
		(void)snprintf(why, POLICY_REASON_MAX,
			       "the registry redirects to an address that is malformed");
		return false;
	}
	if (!package_redirect_renames(&place, l->view->ecosystem, l->view->name))
		return true;
	(void)snprintf(
		why, POLICY_REASON_MAX,
		"the registry redirects from the metadata of %.80s to another package, %.80s",
		l->view->name, place.found.request.name);
	return false;
}

static void package_load_follow(struct package_load *l)
{
	char why[POLICY_REASON_MAX];

	if (package_redirect_read(&l->view->hosts, l->fetch.location, &l->redirects, &l->to,
				  l->target, why) &&
	    package_load_is_of_name(l, why))
		package_load_fetch(l);
	else
		package_load_end(l, 502, why);
}

/* A status that says neither that it is there nor that it is not. The cache's document is taken
 * only if the registry cannot answer: one that refuses may have taken the right to read it away. */
static void on_other_status(struct package_load *l)
{
	const struct package_fetch *f = &l->fetch;
	char why[POLICY_REASON_MAX];

	(void)snprintf(why, sizeof(why), "metadata of %.80s: %.120s%s", l->view->name,
		       f->reason[0] != '\0' ? f->reason : "the registry answered ",
		       f->reason[0] != '\0' ? "" : http1_reason(f->status));
	if (f->status >= 500)
		package_load_no_answer(l, 502, why, f->reason[0] != '\0');
	else
		package_load_end_for(l, f->status >= 400 ? f->status : 502, why,
				     f->reason[0] != '\0');
}

static void on_answer(struct package_load *l)
{
	struct package_view *v = l->view;
	struct package_fetch *f = &l->fetch;
	const struct cache_key key = package_load_key_of(v);
	char why[POLICY_REASON_MAX];

	if (f->status < 400 || f->reason[0] != '\0')
		package_load_uncount_name(l);
	if (f->status == 304 && l->fd >= 0) {
		cache_touch(l->session->egress, &key,
			    &(struct cache_meta){ f->etag, f->modified, f->type });
		v->fetched_ms = clock_wall_ms();
		package_load_use_cached(l, PACKAGE_CACHE_REVALIDATED);
	} else if (f->status == 200) {
		memcpy(v->etag, f->etag, sizeof(v->etag));
		memcpy(v->modified, f->modified, sizeof(v->modified));
		str_copy(v->type, f->type);
		v->fetched_ms = clock_wall_ms();
		v->cached = cache_link_is_open(l->session->egress) ? PACKAGE_CACHE_MISS
								   : PACKAGE_CACHE_BYPASS;
		l->is_new = true;
		package_load_read_document(l, TAKE_FD(f->fd), f->size);
	} else if (package_redirect_is(f->status)) {
		package_load_follow(l);
	} else if (f->status == 404 || f->status == 410) {
		(void)snprintf(why, sizeof(why), "the registry does not have %.100s", v->name);
		package_load_end(l, 404, why);
	} else {
		on_other_status(l);
	}
}

static void on_fetched(struct completion *c, const struct err *e)
{
	struct package_load *l = c->arg;
	char why[POLICY_REASON_MAX];

	package_load_end_fetching(l);
	if (e == NULL) {
		on_answer(l);
		return;
	}
	package_load_uncount_name(l);
	package_fetch_release(&l->fetch);
	(void)snprintf(why, sizeof(why), "metadata of %.80s: %.160s", l->view->name, e->msg);
	package_load_no_answer(l, 502, why, true);
}

static void package_load_fetch(struct package_load *l)
{
	struct package_view *v = l->view;
	struct package_fetch_ask ask = { .to = &l->to,
					 .tls = v->hosts.tls,
					 .target = l->target,
					 .accept = v->accept,
					 .etag = l->fd >= 0 ? v->etag : "",
					 .modified = l->fd >= 0 ? v->modified : "",
					 .credentials = l->redirects == 0 ? l->credentials : NULL,
					 .owner = &l->owner,
					 .noun = "metadata",
					 .max = PACKAGE_FETCH_MAX };

	if (!package_load_may_fetch(l->session)) {
		l->state = LOAD_QUEUED;
		package_view_queued(v, l->session); /* l may be gone after that */
		return;
	}
	if (!package_load_count_name(l)) {
		package_load_end_for(l, 0, "", true);
		return;
	}
	l->state = LOAD_FETCHING;
	l->fetching = true;
	l->session->package_fetches++;
	l->session->share.tenant->package_fetches++;
	package_fetch_release(&l->fetch);
	l->fetch.done.on_done = on_fetched;
	l->fetch.done.arg = l;
	l->fetch.on_bytes = on_bytes;
	l->fetch.arg = l;
	package_fetch_start(&l->fetch, l->session, &ask);
}

bool package_load_try(struct package_view *v)
{
	if (v->load == NULL || v->load->state != LOAD_QUEUED ||
	    !package_load_may_fetch(v->load->session))
		return false;
	package_load_fetch(v->load);
	return true;
}

void package_load_take_over(struct package_view *v, const struct package_view_ask *ask)
{
	if (v->load != NULL && v->load->state == LOAD_QUEUED && v->load->session != ask->session &&
	    package_load_may_fetch(ask->session))
		package_load_cancel(v);
}

bool package_load_is_waiting(const struct package_view *v)
{
	return v->load != NULL && (v->load->state == LOAD_FINDING || v->load->state == LOAD_QUEUED);
}

bool package_load_is_of(const struct package_view *v, const struct egress_session *session)
{
	return v->load != NULL && v->load->session == session;
}

/* ---- finding */

static bool package_load_is_fresh(const struct package_load *l)
{
	uint64_t now = clock_wall_ms();

	if (l->view->only_cache)
		return true;
	if (l->fetched_ms < l->since_ms)
		return false;
	return l->any_age || (l->fetched_ms <= now && now - l->fetched_ms < PACKAGE_VIEW_FRESH_MS);
}

/* This process has not seen the document, the cache has: it is read first, so that a registry that
 * says something else now is noticed. */
static void package_load_read_old(struct package_load *l, int fd)
{
	l->is_old = true;
	package_load_read_document(l, fd, l->size);
}

/* This process holds a fresh document, and the cache none or an older one. */
static bool package_load_is_behind(const struct package_load *l, const struct cache_found *found)
{
	const struct package_view *v = l->view;

	return !v->only_cache && v->doc != NULL && v->doc->fd >= 0 &&
	       v->fetched_ms >= l->since_ms && (l->any_age || package_view_is_fresh(v)) &&
	       (found == NULL || found->fd < 0 || found->fetched_ms < v->fetched_ms);
}

static void package_load_use_held(struct package_load *l, bool has_cache)
{
	struct package_view *v = l->view;

	if (has_cache && clock_now_ns() - v->stored_ns >= STORING_NS)
		package_load_store(l, v->doc);
	v->cached = PACKAGE_CACHE_HIT;
	package_load_end(l, 200, "");
}

static void package_load_end_absent(struct package_load *l)
{
	char why[POLICY_REASON_MAX];

	(void)snprintf(why, sizeof(why),
		       "%.100s is not in the package cache, and this session fetches nothing",
		       l->view->name);
	package_load_end(l, 0, why);
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_load *l = c->arg;
	struct package_view *v = l->view;
	int fd;

	if (package_load_is_behind(l, found)) {
		package_load_use_held(l, e == NULL);
		return;
	}
	if (found != NULL && found->fd >= 0) {
		l->fd = TAKE_FD(found->fd);
		l->size = found->size;
		l->fetched_ms = v->fetched_ms = found->fetched_ms;
		l->raw.alg = DIGEST_SHA256;
		memcpy(l->raw.bytes, found->sha256, sizeof(found->sha256));
		memcpy(v->etag, found->etag, sizeof(v->etag));
		memcpy(v->modified, found->last_modified, sizeof(v->modified));
		memcpy(v->type, found->type, sizeof(v->type));
	}
	if (l->fd >= 0 && package_load_is_fresh(l))
		package_load_use_cached(l, PACKAGE_CACHE_HIT);
	else if (l->fd >= 0 && v->doc == NULL && (fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 3)) >= 0)
		package_load_read_old(l, fd);
	else if (!v->only_cache)
		package_load_fetch(l);
	else if (e != NULL)
		package_load_end(
			l, 0, "packages come from the package cache only, and it is not running");
	else
		package_load_end_absent(l);
}

int package_load_start(struct package_view *v, const struct package_view_ask *ask, bool any_age,
		       struct err *e)
{
	struct package_load *l = calloc(1, sizeof(*l));
	const struct cache_key key = package_load_key_of(v);

	if (l == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	l->view = v;
	l->session = ask->session;
	l->any_age = any_age;
	l->since_ms = ask->since_ms;
	package_fetch_init(&l->fetch);
	l->fd = l->call.found.fd = -1;
	l->to = (struct endpoint){ .by_name = true, .port = v->hosts.at[v->host].port };
	memcpy(l->to.host, v->hosts.at[v->host].name, sizeof(l->to.host));
	str_copy(l->target, v->target);
	if (ask->credentials != NULL)
		l->credentials = strdup(ask->credentials);
	if (ask->owner != NULL)
		l->owner = (struct owner){ .result = ask->owner->result, .mark = ask->owner->mark };
	l->call.on_done = on_found;
	l->call.arg = l;
	v->load = l;
	cache_find(ask->session->egress, ask->session->share.tenant->name, &l->call, &key);
	return 0;
}
