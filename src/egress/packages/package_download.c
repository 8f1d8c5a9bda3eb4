#include "egress/packages/package_download.h"

#include <stdlib.h>
#include <string.h>

#include "egress/control/egress_session.h"

/* A file being downloaded, found by its key. It lives from the first request until the cache has
 * the file or the leader has failed, and all followers are told. */
struct package_download {
	struct package_download *next;
	struct egress *egress;
	char *key; /* owned */
	struct completions followers;
	unsigned n;
	bool leads; /* a request leads it */
	struct package_follow *leader;
	uint64_t moved; /* by it, when it was looked at last */
	bool stalled;	/* no other request waits for it */
	struct cache_call stored;
};

/* *ret_n counts those before it, which are all if there is none. */
static struct package_download *package_download_find(struct egress *g, const char *key,
						      unsigned *ret_n)
{
	struct package_download *d = g->package_downloads;

	*ret_n = 0;
	for (; d != NULL && strcmp(d->key, key) != 0; d = d->next)
		(*ret_n)++;
	return d;
}

/* The loop calls the followers, after the download is gone. */
static void package_download_finish(struct package_download *d)
{
	struct package_download **at = &d->egress->package_downloads;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	cache_call_cancel(&d->stored);
	while (d->followers.first != NULL)
		completion_end(d->followers.first, NULL);
	free(d->key);
	free(d);
}

/* While the leader still reads, its end finishes the download. */
static void on_stored(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_download *d = c->arg;

	if (!d->leads)
		package_download_finish(d);
}

/* all: open downloads. A tenant leads as many as are still free. */
static bool package_download_lead(struct egress_session *session, struct package_follow *f,
				  const char *key, unsigned all)
{
	struct egress *g = session->egress;
	struct package_download *d;

	if (session->package_leads >= PACKAGE_DOWNLOAD_LEADS || all >= PACKAGE_DOWNLOADS_MAX ||
	    session->share.tenant->package_leads >= PACKAGE_DOWNLOADS_MAX - all)
		return false;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return false;
	d->key = strdup(key);
	if (d->key == NULL) {
		free(d);
		return false;
	}
	d->egress = g;
	d->stored.found.fd = -1;
	d->leads = true;
	d->stored.on_done = on_stored;
	d->stored.arg = d;
	d->next = g->package_downloads;
	g->package_downloads = d;
	d->leader = f;
	f->download = d;
	f->session = session;
	session->package_leads++;
	session->share.tenant->package_leads++;
	return true;
}

/* The deadline wakes a follower that waits in vain. */
static void wait_more(struct package_follow *f, struct package_download *d)
{
	completion_begin(&f->done, d->egress->loop, &d->followers);
	completion_set_deadline(&f->done, PACKAGE_DOWNLOAD_WAIT_MS, "the download of a package");
}

bool package_download_join(struct egress_session *session, struct package_follow *f,
			   const char *key, bool *ret_alone)
{
	unsigned all;
	struct package_download *d = package_download_find(session->egress, key, &all);

	*ret_alone = false;
	if (d == NULL && package_download_lead(session, f, key, all))
		return true;
	if (d == NULL || d->stalled || d->n >= PACKAGE_DOWNLOAD_FOLLOWERS) {
		*ret_alone = true;
		return false;
	}
	d->n++;
	f->followed = d;
	f->waits = 0;
	wait_more(f, d);
	return false;
}

/* A leader counts as stuck if no byte came between two looks. Once it has ended, only the cache is
 * waited for. */
bool package_download_wait_on(struct package_follow *f)
{
	struct package_download *d = f->followed;
	uint64_t moved = d->leads ? d->leader->moved(d->leader) : UINT64_MAX;

	if (d->leads && moved == d->moved)
		d->stalled = true;
	d->moved = moved;
	if (d->stalled || ++f->waits == PACKAGE_DOWNLOAD_WAITS)
		return false;
	wait_more(f, d);
	return true;
}

struct cache_call *package_download_stored(struct package_follow *f)
{
	return &f->download->stored;
}

/* The share of session and tenant is given back at once, also while the cache still writes. */
void package_download_end(struct package_follow *f, bool stored)
{
	struct package_download *d = f->download;

	f->download = NULL;
	if (d == NULL)
		return;
	f->session->package_leads--;
	f->session->share.tenant->package_leads--;
	d->leads = false;
	d->leader = NULL;
	if (!stored || !cache_call_is_waiting(&d->stored))
		package_download_finish(d);
}

void package_download_leave(struct package_follow *f)
{
	completion_cancel(&f->done);
}
