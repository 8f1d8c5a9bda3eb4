/* pull.c - theory of operation
 *
 * A pull asks the mirror first, if there is one, then the registry itself. From the first of them
 * with the image it gets a document by the tag or digest. If the document is an index, the entry
 * for this machine names the next document, at most OCI_INDEX_DEPTH_MAX times. The manifest names
 * the configuration. Each is verified by digest and size before it is read, but for the first one
 * of a reference without a digest, whose digest nothing can know.
 *
 * cordond gets every document and reads them again: it does not trust this process.
 *
 * All blobs come from where the manifest came from. */
#include "pull/pull.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/oci/oci_manifest.h"

/* A PULL_BLOB in progress, in pull.blobs. */
struct blob {
	struct blob *next;
	struct pull *pull;
	uint32_t number;
	uint64_t told; /* bytes of the last PULL_PROGRESS */
	struct fetch fetch;
};

/* A PULL_START in progress, in pulls.first. bases[base] is asked now. `expected` is the kind of the
 * document being fetched. */
struct pull {
	struct pull *next;
	struct pulls *all;
	uint32_t id;
	uint8_t *copy; /* owned: what `start` points into */
	size_t copy_len;
	struct pull_start start;
	struct address bases[2]; /* mirror, registry */
	unsigned nbases, base;
	struct login login;
	struct fetch document;
	enum pull_document expected;
	unsigned depth;
	bool resolved;
	struct blob *blobs;
	unsigned nblobs;
	struct loop_timer deadline, progress;
};

static struct loop *pull_loop(const struct pull *p)
{
	return p->all->means->loop;
}

/* blob 0: the pull itself. word: the registry's word for the error. "": none. */
static void pull_report_failure(struct pulls *all, uint32_t pull, uint32_t blob, const char *word,
				const struct err *e)
{
	const struct pull_msg m = { .type = PULL_FAILED,
				    .pull = pull,
				    .blob = blob,
				    .code = e->code,
				    .word = word,
				    .text = e->msg };

	all->on_report(all->arg, &m);
}

/* The address of an object. kind: "manifests" or "blobs". */
static int pull_set_url(const struct pull *p, struct address *ret, const char *kind,
			const char *name, struct err *e)
{
	const struct address *base = &p->bases[p->base];
	size_t n = strlen(base->target);
	int len;

	*ret = *base;
	if (n > 0 && ret->target[n - 1] == '/') /* a prefix of the mirror's URL */
		n--;
	len = snprintf(ret->target + n, sizeof(ret->target) - n, "/v2/%s/%s/%s", p->start.path,
		       kind, name);
	if (len < 0 || (size_t)len >= sizeof(ret->target) - n)
		return err_set(e, ERR_INVALID, "the reference is too long");
	return 0;
}

/* Release the fetch, and set what all fetches of the pull have in common. */
static void pull_init_fetch(struct pull *p, struct fetch *f)
{
	fetch_release(f);
	*f = (struct fetch){ .means = p->all->means,
			     .login = &p->login,
			     .open_hosts = p->start.open_hosts,
			     .patience_ms = p->start.patience_ms,
			     .accept = "*/*",
			     .size = UINT64_MAX,
			     .max = PULL_DOCUMENT_MAX,
			     .fd = -1,
			     .sink = { .fd = -1 },
			     .get = { .fd = -1, .watch = { .fd = -1 }, .outbound = { .fd = -1 } } };
}

/* ---- blobs: each is fetched into the descriptor that cordond sent for it */

#define PROGRESS_MS 250

static void pull_blob_free(struct blob *b)
{
	struct blob **at = &b->pull->blobs;

	while (*at != b)
		at = &(*at)->next;
	LIST_GONE(b);
	*at = b->next;
	b->pull->nblobs--;
	fetch_release(&b->fetch);
	free(b);
}

static void pull_report_progress(struct blob *b)
{
	const struct pull_msg m = { .type = PULL_PROGRESS,
				    .pull = b->pull->id,
				    .blob = b->number,
				    .bytes = b->fetch.done };

	if (b->told == b->fetch.done)
		return;
	b->told = b->fetch.done;
	b->pull->all->on_report(b->pull->all->arg, &m);
}

/* Report how far the blobs are, again and again while there are any. */
static void pull_on_progress(struct loop_timer *t)
{
	struct pull *p = t->arg;

	/* alone: a report is queued for cordond */
	LIST_WALK(struct blob, b, p->blobs)
		pull_report_progress(b);
	if (p->blobs)
		loop_timer_set(pull_loop(p), t, loop_now_ns(pull_loop(p)) + PROGRESS_MS * CLOCK_MS);
}

/* A blob that failed does not end the pull: cordond decides. */
static void on_blob(struct fetch *f, const struct err *e)
{
	struct blob *b = f->arg;
	struct pull *p = b->pull;
	const struct pull_msg done = { .type = PULL_BLOB_DONE, .pull = p->id, .blob = b->number };

	if (e)
		pull_report_failure(p->all, p->id, b->number, f->code, e);
	else
		p->all->on_report(p->all->arg, &done);
	pull_blob_free(b);
}

/* cordond may ask for blobs once the configuration was reported. The descriptor must not block the
 * loop. */
static int pull_check_blob(const struct pull *p, uint32_t number, int fd, struct err *e)
{
	for (const struct blob *b = p->blobs; b; b = b->next)
		if (b->number == number)
			return err_set(e, ERR_CONFLICT, "this blob is being fetched");
	if (!p->resolved || p->nblobs >= PULL_BLOBS_MAX)
		return err_set(e, ERR_CONFLICT, "too many blobs at a time, or too early");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "descriptor of a blob");
	return 0;
}

/* PULL_BLOB. *fd is taken over if it succeeds, and -1 then. */
static int pull_blob_add(struct pull *p, const struct pull_msg *m, int *fd, struct err *e)
{
	struct blob *b;
	char text[OCI_DIGEST_TEXT];

	if (pull_check_blob(p, m->blob, *fd, e) < 0)
		return -1;
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, ERR_SYSTEM, "out of memory");
	b->pull = p;
	b->number = m->blob;
	b->fetch.fd = -1;
	pull_init_fetch(p, &b->fetch);
	b->fetch.on_done = on_blob;
	b->fetch.arg = b;
	b->fetch.has_digest = true;
	memcpy(b->fetch.digest.sha256, m->sha256, sizeof(m->sha256));
	b->fetch.size = b->fetch.max = m->bytes;
	oci_digest_text(&b->fetch.digest, text);
	if (pull_set_url(p, &b->fetch.url, "blobs", text, e) < 0) {
		free(b);
		return -1;
	}
	b->fetch.fd = *fd;
	*fd = -1;
	b->next = p->blobs;
	p->blobs = b;
	p->nblobs++;
	loop_timer_set(pull_loop(p), &p->progress,
		       loop_now_ns(pull_loop(p)) + PROGRESS_MS * CLOCK_MS);
	fetch_start(&b->fetch);
	return 0;
}

/* ---- the end */

static void pull_free_pull(struct pull *p)
{
	struct pull **at = &p->all->first;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->all->n--;
	while (p->blobs)
		pull_blob_free(p->blobs);
	fetch_release(&p->document);
	loop_timer_cancel(pull_loop(p), &p->deadline);
	loop_timer_cancel(pull_loop(p), &p->progress);
	login_release(&p->login);
	if (p->copy) /* it has the password */
		explicit_bzero(p->copy, p->copy_len);
	free(p->copy);
	free(p);
}

static void pull_fail(struct pull *p, const char *word, const struct err *e)
{
	log_warn("pull failed", "registry=%s repository=%s error=%s", p->start.host, p->start.path,
		 e->msg);
	pull_report_failure(p->all, p->id, 0, word, e);
	pull_free_pull(p);
}

static void on_deadline(struct loop_timer *t)
{
	struct pull *p = t->arg;
	struct err e;

	(void)err_set(&e, ERR_LIMIT, "the pull took longer than %llu s",
		      (unsigned long long)(p->start.deadline_ms / 1000));
	pull_fail(p, "", &e);
}

void pulls_release(struct pulls *all)
{
	while (all->first)
		pull_free_pull(all->first);
}

/* ---- documents */

static void on_document(struct fetch *f, const struct err *e);

/* d: NULL for the first document, with only a name. */
static void pull_get_document(struct pull *p, enum pull_document expected, const char *name,
			      const struct oci_descriptor *d)
{
	struct fetch *f = &p->document;
	char text[OCI_DIGEST_TEXT];
	struct err e;

	pull_init_fetch(p, f);
	f->on_done = on_document;
	f->arg = p;
	p->expected = expected;
	if (expected != PULL_CONFIG)
		f->accept = OCI_ACCEPT;
	if (d) {
		f->has_digest = true;
		f->digest = d->digest;
		f->size = d->size;
		oci_digest_text(&d->digest, text);
		name = text;
	} else {
		f->has_digest = oci_digest_read(name, strlen(name), &f->digest, &e) == 0;
	}
	if (d && d->size > PULL_DOCUMENT_MAX)
		(void)err_set(&e, ERR_LIMIT,
			      "a manifest or configuration of %llu bytes, at most %u",
			      (unsigned long long)d->size, PULL_DOCUMENT_MAX);
	else if (pull_set_url(p, &f->url, expected == PULL_CONFIG ? "blobs" : "manifests", name,
			      &e) == 0) {
		fetch_start(f);
		return;
	}
	pull_fail(p, "", &e);
}

static void pull_ask_base(struct pull *p)
{
	login_release(&p->login);
	p->login.home = p->bases[p->base];
	p->login.repository = p->start.path;
	/* credentials are for the registry, not for a mirror of it */
	p->login.user = p->base + 1 == p->nbases ? p->start.user : "";
	p->login.password = p->base + 1 == p->nbases ? p->start.password : "";
	p->login.aws = p->login.user[0] != '\0' && p->start.aws;
	p->depth = 0;
	pull_get_document(p, PULL_MANIFEST, p->start.reference, NULL);
}

static void pull_send_document(struct pull *p, enum pull_document kind)
{
	const struct pull_msg m = { .type = PULL_DOCUMENT,
				    .pull = p->id,
				    .document = kind,
				    .data = p->document.body.data,
				    .len = p->document.body.len };

	p->all->on_report(p->all->arg, &m);
}

static int pull_next_of_index(struct pull *p, struct oci_descriptor *ret, struct err *e)
{
	const struct fetch *f = &p->document;
	enum oci_kind kind;

	if (++p->depth > OCI_INDEX_DEPTH_MAX)
		return err_set(e, ERR_INVALID, "indexes that name indexes, more than %d deep",
			       OCI_INDEX_DEPTH_MAX);
	return oci_index_choose(f->body.data, f->body.len, oci_platform_own(), NULL, ret, &kind, e);
}

static int pull_read_manifest(struct pull *p, struct oci_descriptor *ret, struct err *e)
{
	struct oci_manifest *m = calloc(1, sizeof(*m));
	int result;

	if (!m)
		return err_set(e, ERR_SYSTEM, "out of memory");
	result = oci_manifest_read(p->document.body.data, p->document.body.len, m, e);
	*ret = m->config;
	free(m);
	return result;
}

/* A verified document has come. */
static void pull_take_document(struct pull *p)
{
	const struct fetch *f = &p->document;
	enum oci_kind kind = OCI_KIND_MANIFEST;
	struct oci_descriptor next = { 0 };
	struct err e = { 0 };

	if (p->expected == PULL_CONFIG) {
		p->resolved = true;
		pull_send_document(p, PULL_CONFIG);
		return;
	}
	if (oci_document_kind(f->body.data, f->body.len, f->type, &kind, &e) < 0 ||
	    (kind == OCI_KIND_INDEX ? pull_next_of_index(p, &next, &e)
				    : pull_read_manifest(p, &next, &e)) < 0) {
		pull_fail(p, "", &e);
		return;
	}
	pull_send_document(p, kind == OCI_KIND_INDEX ? PULL_INDEX : PULL_MANIFEST);
	pull_get_document(p, kind == OCI_KIND_INDEX ? PULL_MANIFEST : PULL_CONFIG, NULL, &next);
}

static void on_document(struct fetch *f, const struct err *e)
{
	struct pull *p = f->arg;
	bool first = p->expected == PULL_MANIFEST && p->depth == 0;

	if (!e) {
		pull_take_document(p);
	} else if (first && p->base + 1 < p->nbases) {
		log_info("mirror does not have the image, the registry is asked",
			 "mirror=%s repository=%s error=%s", p->start.mirror, p->start.path,
			 e->msg);
		p->base++;
		pull_ask_base(p);
	} else {
		pull_fail(p, f->code, e);
	}
}

/* ---- beginning */

static int pull_set_bases(struct pull *p, struct err *e)
{
	const char *mirror = p->start.mirror;

	if (mirror[0] != '\0' &&
	    address_read(mirror, strlen(mirror), &p->bases[p->nbases++], e) < 0)
		return err_wrap(e, "mirror");
	return address_of_registry(p->start.host, &p->bases[p->nbases++], e);
}

/* The message's strings are copied: they point into the channel's buffer. */
static int pull_copy_start(struct pull *p, const struct pull_msg *m, struct err *e)
{
	struct pull_msg again;
	struct frame f;
	int n;

	p->copy_len = FRAME_HEAD + PULL_REQUEST_MAX;
	p->copy = malloc(p->copy_len);
	n = p->copy ? pull_msg_write(m, p->copy, p->copy_len) : -1;
	if (n < 0 || frame_read(p->copy, (size_t)n, PULL_REQUEST_MAX, &f, e) <= 0 ||
	    pull_msg_read(&f, &again, e) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	p->start = again.start;
	return 0;
}

static void pull_start(struct pulls *all, const struct pull_msg *m)
{
	struct pull *p = all->n < PULL_PULLS_MAX ? calloc(1, sizeof(*p)) : NULL;
	struct err e;

	if (!p) {
		(void)err_set(&e, ERR_LIMIT, "too many pulls at a time");
		pull_report_failure(all, m->pull, 0, "", &e);
		return;
	}
	p->all = all;
	p->id = m->pull;
	p->document.fd = -1;
	p->deadline = (struct loop_timer){ .on_expire = on_deadline, .arg = p };
	p->progress = (struct loop_timer){ .on_expire = pull_on_progress, .arg = p };
	p->next = all->first;
	all->first = p;
	all->n++;
	if (pull_copy_start(p, m, &e) < 0) {
		pull_report_failure(all, m->pull, 0, "", &e);
		pull_free_pull(p);
		return;
	}
	loop_timer_set(pull_loop(p), &p->deadline,
		       loop_now_ns(pull_loop(p)) + p->start.deadline_ms * CLOCK_MS);
	log_info("pull", "registry=%s repository=%s reference=%s mirror=%s", p->start.host,
		 p->start.path, p->start.reference, p->start.mirror);
	if (pull_set_bases(p, &e) < 0)
		pull_fail(p, "", &e);
	else
		pull_ask_base(p);
}

static struct pull *pull_find(const struct pulls *all, uint32_t id)
{
	struct pull *p = all->first;

	while (p && p->id != id)
		p = p->next;
	return p;
}

/* A failed pull is not known any more. Orders that cordond sent before it knew of the failure are
 * dropped. */
void pulls_handle(struct pulls *all, const struct pull_msg *m, int fd)
{
	struct pull *p = pull_find(all, m->pull);
	struct err e;

	if (m->type == PULL_START && !p)
		pull_start(all, m);
	else if (m->type == PULL_BLOB && p && pull_blob_add(p, m, &fd, &e) < 0)
		pull_report_failure(all, m->pull, m->blob, "", &e);
	else if (m->type == PULL_END && p)
		pull_free_pull(p);
	if (fd >= 0)
		fd_close(fd);
}
