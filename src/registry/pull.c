/* pull.c - theory of operation
 *
 * A pull asks the mirror first, if there is one, then the registry itself. From the first of them
 * that has the image it gets a document by the tag or digest. If that is an index, the entry for
 * this machine names the next document, at most OCI_INDEX_DEPTH_MAX times. The manifest names the
 * configuration. Each is verified by digest and size before it is read, but for the first one of a
 * reference without a digest, whose digest nothing can know.
 *
 * cordond gets every document and reads them again: it does not trust this process.
 *
 * All blobs (pull_blob.c) come from where the manifest came from. */
#include "pull_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fd.h"
#include "log.h"
#include "oci_manifest.h"

struct loop *pull_loop(const struct pull *p)
{
	return p->all->means->loop;
}

/* ---- the end */

static void free_pull(struct pull *p)
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

void pull_report_failure(struct pulls *all, uint32_t pull, uint32_t blob, const char *word,
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

static void fail(struct pull *p, const char *word, const struct err *e)
{
	log_warn("pull failed", "registry=%s repository=%s error=%s", p->start.host, p->start.path,
		 e->msg);
	pull_report_failure(p->all, p->id, 0, word, e);
	free_pull(p);
}

static void on_deadline(struct loop_timer *t)
{
	struct pull *p = t->arg;
	struct err e;

	(void)err_set(&e, ERR_LIMIT, "the pull took longer than %llu s",
		      (unsigned long long)(p->start.deadline_ms / 1000));
	fail(p, "", &e);
}

void pulls_release(struct pulls *all)
{
	while (all->first)
		free_pull(all->first);
}

/* ---- documents */

static void on_document(struct fetch *f, const struct err *e);

int pull_set_url(const struct pull *p, struct address *ret, const char *kind, const char *name,
		 struct err *e)
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

void pull_init_fetch(struct pull *p, struct fetch *f)
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

/* d: NULL for the first document, which has only a name. */
static void get_document(struct pull *p, enum pull_document expected, const char *name,
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
	fail(p, "", &e);
}

static void ask_base(struct pull *p)
{
	login_release(&p->login);
	p->login.home = p->bases[p->base];
	p->login.repository = p->start.path;
	/* credentials are for the registry, not for a mirror of it */
	p->login.user = p->base + 1 == p->nbases ? p->start.user : "";
	p->login.password = p->base + 1 == p->nbases ? p->start.password : "";
	p->login.aws = p->login.user[0] != '\0' && p->start.aws;
	p->depth = 0;
	get_document(p, PULL_MANIFEST, p->start.reference, NULL);
}

static void send_document(struct pull *p, enum pull_document kind)
{
	const struct pull_msg m = { .type = PULL_DOCUMENT,
				    .pull = p->id,
				    .document = kind,
				    .data = p->document.body.data,
				    .len = p->document.body.len };

	p->all->on_report(p->all->arg, &m);
}

static int next_of_index(struct pull *p, struct oci_descriptor *ret, struct err *e)
{
	const struct fetch *f = &p->document;
	enum oci_kind kind;

	if (++p->depth > OCI_INDEX_DEPTH_MAX)
		return err_set(e, ERR_INVALID, "indexes that name indexes, more than %d deep",
			       OCI_INDEX_DEPTH_MAX);
	return oci_index_choose(f->body.data, f->body.len, oci_platform_own(), NULL, ret, &kind, e);
}

static int read_manifest(struct pull *p, struct oci_descriptor *ret, struct err *e)
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
static void take_document(struct pull *p)
{
	const struct fetch *f = &p->document;
	enum oci_kind kind = OCI_KIND_MANIFEST;
	struct oci_descriptor next = { 0 };
	struct err e = { 0 };

	if (p->expected == PULL_CONFIG) {
		p->resolved = true;
		send_document(p, PULL_CONFIG);
		return;
	}
	if (oci_document_kind(f->body.data, f->body.len, f->type, &kind, &e) < 0 ||
	    (kind == OCI_KIND_INDEX ? next_of_index(p, &next, &e) : read_manifest(p, &next, &e)) <
		    0) {
		fail(p, "", &e);
		return;
	}
	send_document(p, kind == OCI_KIND_INDEX ? PULL_INDEX : PULL_MANIFEST);
	get_document(p, kind == OCI_KIND_INDEX ? PULL_MANIFEST : PULL_CONFIG, NULL, &next);
}

static void on_document(struct fetch *f, const struct err *e)
{
	struct pull *p = f->arg;
	bool first = p->expected == PULL_MANIFEST && p->depth == 0;

	if (!e) {
		take_document(p);
	} else if (first && p->base + 1 < p->nbases) {
		log_info("mirror does not have the image, the registry is asked",
			 "mirror=%s repository=%s error=%s", p->start.mirror, p->start.path,
			 e->msg);
		p->base++;
		ask_base(p);
	} else {
		fail(p, f->code, e);
	}
}

/* ---- beginning */

static int set_bases(struct pull *p, struct err *e)
{
	const char *mirror = p->start.mirror;

	if (mirror[0] != '\0' &&
	    address_read(mirror, strlen(mirror), &p->bases[p->nbases++], e) < 0)
		return err_wrap(e, "mirror");
	return address_of_registry(p->start.host, &p->bases[p->nbases++], e);
}

/* The message's strings are copied: they point into the channel's buffer. */
static int copy_start(struct pull *p, const struct pull_msg *m, struct err *e)
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

static void start(struct pulls *all, const struct pull_msg *m)
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
	if (copy_start(p, m, &e) < 0) {
		pull_report_failure(all, m->pull, 0, "", &e);
		free_pull(p);
		return;
	}
	loop_timer_set(pull_loop(p), &p->deadline,
		       loop_now_ns(pull_loop(p)) + p->start.deadline_ms * CLOCK_MS);
	log_info("pull", "registry=%s repository=%s reference=%s mirror=%s", p->start.host,
		 p->start.path, p->start.reference, p->start.mirror);
	if (set_bases(p, &e) < 0)
		fail(p, "", &e);
	else
		ask_base(p);
}

static struct pull *find(const struct pulls *all, uint32_t id)
{
	struct pull *p = all->first;

	while (p && p->id != id)
		p = p->next;
	return p;
}

/* A pull that has failed is not known any more; what cordond sent before it knew that is dropped.
 */
void pulls_handle(struct pulls *all, const struct pull_msg *m, int fd)
{
	struct pull *p = find(all, m->pull);
	struct err e;

	if (m->type == PULL_START && !p)
		start(all, m);
	else if (m->type == PULL_BLOB && p && pull_blob_add(p, m, &fd, &e) < 0)
		pull_report_failure(all, m->pull, m->blob, "", &e);
	else if (m->type == PULL_END && p)
		free_pull(p);
	if (fd >= 0)
		fd_close(fd);
}
