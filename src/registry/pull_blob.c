/* pull_blob.c - the blobs of a pull: each is fetched into the descriptor that cordond sent for it.
 * See pull_private.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "pull_private.h"

#define PROGRESS_MS 250

void pull_blob_free(struct blob *b)
{
	struct blob **at = &b->pull->blobs;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	b->pull->nblobs--;
	fetch_release(&b->fetch);
	free(b);
}

static void report_progress(struct blob *b)
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

void pull_on_progress(struct loop_timer *t)
{
	struct pull *p = t->arg;

	for (struct blob *b = p->blobs; b; b = b->next)
		report_progress(b);
	if (p->blobs)
		loop_timer_set(pull_loop(p), t, loop_now_ns(pull_loop(p)) + PROGRESS_MS * CLOCK_MS);
}

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

static int check_blob(const struct pull *p, uint32_t number, int fd, struct err *e)
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

int pull_blob_add(struct pull *p, const struct pull_msg *m, int *fd, struct err *e)
{
	struct blob *b;
	char text[OCI_DIGEST_TEXT];

	if (check_blob(p, m->blob, *fd, e) < 0)
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
