/* package_gate_zip.c - a Go module whose hash is known, by a pin or the checksum database. Go's
 * hash is of the files in the zip, not of its bytes, so it cannot be checked while they pass: the
 * zip is fetched as metadata is, into memory, hashed in pieces, and sent to the cell when the hash
 * is right. One of the cache is hashed again, since cordon-egress alone says which hash of Go a
 * stored file has.
 *
 * What a session may hold is bounded, and go asks for many modules at once: a few are fetched at a
 * time, and the others wait for their turn. */
#include "package_gate_base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway_file.h"
#include "go_h1.h"
#include "package_fetch.h"
#include "package_redirect.h"

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

static void fetch(struct package_zip *z);

static bool on_bytes(struct package_fetch *f, size_t n)
{
	struct package_zip *z = f->arg;

	z->counted += n;
	return resource_share_documents(&z->gate->x->session->share, z->counted - n, z->counted);
}

static int read_at(void *arg, uint64_t at, void *ret, size_t n, struct err *e)
{
	const struct package_zip *z = arg;

	if (pread(z->fetch.fd, ret, n, (off_t)at) != (ssize_t)n)
		return err_sys(e, "zip");
	return 0;
}

static void store(struct package_zip *z)
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

/* What the cache has is not the module: it was stored under a wrong name. */
static void drop(struct package_zip *z)
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
		drop(z);
		fetch(z);
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
	g->result = PACKAGE_DOWNLOADED;
	if (z->from_cache)
		g->cached = PACKAGE_CACHE_HIT;
	else if (g->file_key != NULL)
		store(z);
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
		fetch(z);
		return;
	}
	more = go_h1_step(z->hash, STEP, &e);
	resource_share_turn_moved(&x->session->share, STEP);
	if (more > 0)
		loop_defer(x->loop, &z->task);
	else if (more == 0)
		on_hashed(z);
	else if (z->from_cache) {
		drop(z);
		fetch(z);
	} else
		package_gate_fail(z->gate, 502, e.msg);
}

/* The zip is in fetch.fd. */
static void hash(struct package_zip *z)
{
	const struct go_h1_source source = { .size = z->fetch.size, .read_at = read_at, .arg = z };
	struct err failed = { 0 };

	go_h1_free(z->hash);
	z->hash = go_h1_new(&source, &failed);
	if (z->hash == NULL)
		package_gate_fail(z->gate, 502, failed.msg);
	else
		loop_defer(z->gate->x->loop, &z->task);
}

static void follow(struct package_zip *z)
{
	if (package_gate_leads(z->gate, z->fetch.location, &z->redirects, &z->to, z->target))
		fetch(z);
}

static void on_fetched(struct completion *c, const struct err *e)
{
	struct package_zip *z = c->arg;
	struct package_gate *g = z->gate;

	gateway_wait(g->x, GATEWAY_ANSWER_MS);
	if (e == NULL && package_redirect_is(z->fetch.status) && g->registry != NULL) {
		follow(z);
		return;
	}
	if (e != NULL || z->fetch.status != 200) {
		package_gate_fail(g, e != NULL || z->fetch.status < 400 ? 502 : z->fetch.status,
				  e != NULL		       ? e->msg
				  : z->fetch.reason[0] != '\0' ? z->fetch.reason
							       : "the registry does not have it");
		return;
	}
	hash(z);
}

static void fetch(struct package_zip *z)
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

/* Begins with those that are among the first of their session. */
static void begin_first(struct egress_session *session)
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

static void join(struct package_zip *z)
{
	struct package_zip **at = &z->gate->x->session->package_zips;

	while (*at != NULL)
		at = &(*at)->next;
	*at = z;
	begin_first(z->gate->x->session);
}

static void leave(struct package_zip *z)
{
	struct package_zip **at = &z->gate->x->session->package_zips;

	while (*at != z)
		at = &(*at)->next;
	*at = z->next;
	begin_first(z->gate->x->session);
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
	join(z);
	if (z->from_cache)
		hash(z);
}

void package_gate_zip_end(struct package_gate *g)
{
	struct package_zip *z = g->zip;

	g->zip = NULL;
	if (z == NULL)
		return;
	leave(z);
	loop_task_cancel(g->x->loop, &z->task);
	package_fetch_release(&z->fetch);
	go_h1_free(z->hash);
	(void)resource_share_documents(&g->x->session->share, z->counted, 0);
	free(z);
}
