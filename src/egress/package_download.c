#include "package_download.h"

#include <stdlib.h>
#include <string.h>

#include "egress_session.h"

struct package_download {
	struct package_download *next;
	struct egress *egress;
	char *key; /* owned */
	struct completions followers;
	unsigned n;
	bool leads; /* a request leads it */
	struct cache_call stored;
};

static struct package_download *find(struct egress *g, const char *key, unsigned *ret_n)
{
	struct package_download *d = g->package_downloads;

	*ret_n = 0;
	for (; d != NULL && strcmp(d->key, key) != 0; d = d->next)
		(*ret_n)++;
	return d;
}

static void finish(struct package_download *d)
{
	struct package_download **at = &d->egress->package_downloads;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	while (d->followers.first != NULL)
		completion_end(d->followers.first, NULL);
	cache_call_cancel(&d->stored);
	free(d->key);
	free(d);
}

static void on_stored(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_download *d = c->arg;

	(void)found;
	(void)e;
	if (!d->leads)
		finish(d);
}

static bool lead(struct egress *g, struct package_follow *f, const char *key)
{
	struct package_download *d = calloc(1, sizeof(*d));

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
	f->download = d;
	return true;
}

bool package_download_join(struct egress *g, struct package_follow *f, const char *key,
			   bool *ret_alone)
{
	unsigned all;
	struct package_download *d = find(g, key, &all);

	*ret_alone = false;
	if (d == NULL && all < PACKAGE_DOWNLOADS_MAX && lead(g, f, key))
		return true;
	if (d == NULL || d->n >= PACKAGE_DOWNLOAD_FOLLOWERS) {
		*ret_alone = true;
		return false;
	}
	d->n++;
	completion_begin(&f->done, g->loop, &d->followers);
	completion_set_deadline(&f->done, PACKAGE_DOWNLOAD_WAIT_MS, "the download of a package");
	return false;
}

struct cache_call *package_download_stored(struct package_follow *f)
{
	return &f->download->stored;
}

void package_download_end(struct package_follow *f, bool stored)
{
	struct package_download *d = f->download;

	f->download = NULL;
	if (d == NULL)
		return;
	d->leads = false;
	if (!stored || !cache_call_is_waiting(&d->stored))
		finish(d);
}

void package_download_leave(struct package_follow *f)
{
	completion_cancel(&f->done);
}
