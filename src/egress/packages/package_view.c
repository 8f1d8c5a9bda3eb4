/* package_view.c - the table of views, their waiters, and the kept ones. See package_view.h.
 *
 * A view is found by a text: scope, registry, its hosts, document. The hosts and the paths before
 * names there are part of it since they decide which files of a document count, and policies may
 * name different ones.
 *
 * The end of a load calls gates, which end loads, ask for views and let views go. So no function
 * that a callback of the loop stands on frees a view or begins a load of another view: tasks of the
 * loop do (start_next, trim), and each looks at the list from its end again. */
#include "egress/packages/package_view.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/packages/package_load.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/text_hash.h"

#define BUCKETS 256U
#define KEY_MAX ((size_t)64 * 1024)

struct package_views {
	struct egress *egress;
	struct loop_task start, trim;
	struct package_view *newest, *oldest;
	struct package_view *buckets[BUCKETS];
	unsigned n;
	size_t memory; /* of facts */
};

const char *package_cached_name(enum package_cached c)
{
	static const char *const names[] = { "bypass", "miss", "hit", "revalidated", "stale" };

	return names[c];
}

/* ---- the table */

static void unlink_used(struct package_view *v)
{
	struct package_views *all = v->all;

	LIST_GONE(v);
	*(v->prev != NULL ? &v->prev->next : &all->newest) = v->next;
	*(v->next != NULL ? &v->next->prev : &all->oldest) = v->prev;
	v->prev = v->next = NULL;
}

static void link_newest(struct package_view *v)
{
	struct package_views *all = v->all;

	v->next = all->newest;
	*(v->next != NULL ? &v->next->prev : &all->oldest) = v;
	all->newest = v;
}

struct package_document *package_document_hold(struct package_document *d)
{
	d->refs++;
	return d;
}

void package_document_drop(struct package_document *d)
{
	if (d == NULL || --d->refs > 0)
		return;
	package_meta_free(d->meta);
	if (d->fd >= 0)
		fd_close(d->fd);
	free(d);
}

static void close_document(struct package_document *d)
{
	if (d->refs > 1)
		return;
	fd_close(d->fd);
	d->fd = -1;
}

static void view_free(struct package_view *v)
{
	struct package_view **at = &v->all->buckets[v->hash % BUCKETS];

	while (*at != v)
		at = &(*at)->chain;
	*at = v->chain;
	unlink_used(v);
	v->all->n--;
	if (v->doc != NULL)
		v->all->memory -= package_meta_memory(v->doc->meta);
	package_document_drop(v->doc);
	package_hosts_release(&v->hosts);
	package_changes_release(&v->changes);
	free(v->key);
	free(v->scope);
	free(v->registry);
	free(v->name);
	free(v->target);
	free(v->path);
	free(v);
}

static bool is_idle(const struct package_view *v)
{
	return v->refs == 0 && v->load == NULL;
}

/* The least used go, until the kept ones are within their bounds. */
static void package_view_trim(struct loop_task *t)
{
	struct package_views *all = t->arg;
	unsigned open = 0;
	uint64_t bytes = 0;

	for (struct package_view *v = all->newest; v != NULL; v = v->next) {
		if (v->doc == NULL || v->doc->fd < 0)
			continue;
		bytes += v->doc->size;
		if ((++open > PACKAGE_VIEW_FDS || bytes > PACKAGE_VIEW_BYTES) && is_idle(v))
			close_document(v->doc);
	}
	LIST_WALK_ENDING_BY(struct package_view, v, all->oldest, prev) {
		if (all->n <= PACKAGE_VIEWS_MAX && all->memory <= PACKAGE_VIEW_MEMORY)
			break;
		/* alone: an idle view has no waiter to call */
		if (is_idle(v))
			view_free(v);
	}
}

static void trim_soon(struct package_views *all)
{
	loop_defer(all->egress->loop, &all->trim);
}

/* The list may be another one after each load that begins. */
static void start_next(struct loop_task *t)
{
	struct package_views *all = t->arg;

	/* alone: a view whose load begins is the last that this loop looks at */
	LIST_WALK_BY(struct package_view, v, all->oldest, prev)
		if (package_load_try(v)) {
			loop_defer(all->egress->loop, t);
			return;
		}
}

void package_views_start_soon(struct egress *g)
{
	loop_defer(g->loop, &g->package_views->start);
}

/* NULL: out of memory. */
static struct package_views *views_of(struct egress *g)
{
	struct package_views *all = g->package_views;

	if (all != NULL)
		return all;
	all = calloc(1, sizeof(*all));
	if (all == NULL)
		return NULL;
	all->egress = g;
	all->start = (struct loop_task){ .on_run = start_next, .arg = all };
	all->trim = (struct loop_task){ .on_run = package_view_trim, .arg = all };
	g->package_views = all;
	return all;
}

/* The path before names at a host of files. */
static const char *path_at(const struct package_host *h)
{
	return h->path != NULL ? h->path : "";
}

static char *key_of(const struct package_view_ask *ask, const char *registry)
{
	struct buf b = BUF_INIT(KEY_MAX);
	struct err e;
	char *key = NULL;

	buf_printf(&b, "%s\n%s\n%s\n%zu\n%d\n%d%d", ask->scope, registry, ask->source->target,
		   ask->source->host, (int)ask->source->doc, ask->only_cache, ask->tls);
	for (size_t i = 0; i < ask->registry->nfiles; i++)
		buf_printf(&b, "\n%s:%u %s", ask->registry->files[i].name,
			   ask->registry->files[i].port, path_at(&ask->registry->files[i]));
	if (buf_check(&b, &e) == 0)
		key = strdup(buf_text(&b));
	buf_release(&b);
	return key;
}

static char *path_of(const struct package_view_ask *ask)
{
	const struct package_source *s = ask->source;
	char text[CACHE_PATH_MAX];

	if (s->host == 0)
		return strdup(s->target);
	(void)snprintf(text, sizeof(text), "%s:%u %s", ask->registry->files[s->host - 1].name,
		       package_registry_port(&ask->registry->files[s->host - 1], ask->tls),
		       s->target);
	return strdup(text);
}

static struct package_view *view_new(struct package_views *all, const struct package_view_ask *ask,
				     const char *registry)
{
	struct package_view *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	v->all = all;
	v->egress = ask->session->egress;
	v->scope = strdup(ask->scope);
	v->registry = strdup(registry);
	v->name = strdup(ask->name);
	v->target = strdup(ask->source->target);
	v->path = path_of(ask);
	v->host = ask->source->host;
	v->accept = ask->source->accept;
	v->doc_kind = ask->source->doc;
	v->ecosystem = ask->registry->ecosystem;
	v->only_cache = ask->only_cache;
	if (v->scope != NULL && v->registry != NULL && v->name != NULL && v->target != NULL &&
	    v->path != NULL && package_hosts_copy(&v->hosts, ask->registry, ask->tls) == 0)
		return v;
	free(v->scope);
	free(v->registry);
	free(v->name);
	free(v->target);
	free(v->path);
	free(v);
	return NULL;
}

static struct package_view *package_view_add(struct package_views *all,
					     const struct package_view_ask *ask,
					     const char *registry, char *key)
{
	struct package_view *v = view_new(all, ask, registry);

	if (v == NULL) {
		free(key);
		return NULL;
	}
	v->key = key;
	v->hash = text_hash(key);
	v->chain = all->buckets[v->hash % BUCKETS];
	all->buckets[v->hash % BUCKETS] = v;
	link_newest(v);
	all->n++;
	return v;
}

/* NULL: out of memory. */
static struct package_view *package_view_find(struct egress *g, const struct package_view_ask *ask)
{
	char registry[PACKAGE_REGISTRY_TEXT], *key;
	struct package_views *all = views_of(g);
	struct package_view *v;
	uint64_t hash;

	package_registry_text(ask->registry, ask->tls, registry);
	key = all == NULL ? NULL : key_of(ask, registry);
	if (key == NULL)
		return NULL;
	hash = text_hash(key);
	v = all->buckets[hash % BUCKETS];
	while (v != NULL && (v->hash != hash || strcmp(v->key, key) != 0))
		v = v->chain;
	if (v == NULL)
		return package_view_add(all, ask, registry, key);
	free(key);
	unlink_used(v);
	link_newest(v);
	return v;
}

/* ---- those that wait */

bool package_view_is_fresh(const struct package_view *v)
{
	uint64_t now = clock_wall_ms();

	if (v->only_cache)
		return true;
	return v->fetched_ms <= now && now - v->fetched_ms < PACKAGE_VIEW_FRESH_MS;
}

static bool package_view_satisfies(const struct package_view *v, const struct package_view_wait *w)
{
	return v->doc != NULL && (w->any_age || package_view_is_fresh(v)) &&
	       (!w->raw || v->doc->fd >= 0);
}

void package_view_get(struct package_view_wait *w, const struct package_view_ask *ask)
{
	struct loop *l = ask->session->egress->loop;
	struct err e = { 0 };

	w->view = package_view_find(ask->session->egress, ask);
	if (w->view == NULL) {
		(void)err_set(&e, ERR_SYSTEM, "out of memory");
		completion_end_soon(&w->done, l, &e);
		return;
	}
	w->view->refs++;
	w->session = ask->session;
	package_load_take_over(w->view, ask);
	/* With a cache, it is asked even so: it may have been emptied by now. */
	if (w->view->load == NULL && !cache_link_is_open(ask->session->egress) &&
	    package_view_satisfies(w->view, w) &&
	    (ask->only_cache || w->view->fetched_ms >= ask->since_ms)) {
		w->view->cached = PACKAGE_CACHE_HIT;
		completion_end_soon(&w->done, l, NULL);
		return;
	}
	if (w->view->load == NULL && package_load_start(w->view, ask, w->any_age, &e) < 0) {
		completion_end_soon(&w->done, l, &e);
		return;
	}
	completion_begin(&w->done, l, &w->view->waiting[w->view->current]);
}

void package_view_put(struct package_view_wait *w)
{
	struct package_view *v = w->view;

	completion_cancel(&w->done);
	w->view = NULL;
	if (v == NULL)
		return;
	if (--v->refs == 0 && package_load_is_waiting(v))
		package_load_cancel(v); /* no request waits for it, and nothing was sent */
	trim_soon(v->all);
}

/* Those that wait from now on are in the other list. */
static struct completions *take_waiting(struct package_view *v)
{
	struct completions *waiting = &v->waiting[v->current];

	v->current = 1 - v->current;
	return waiting;
}

static struct package_view_wait *wait_of(struct completion *c)
{
	return (struct package_view_wait *)((char *)c - offsetof(struct package_view_wait, done));
}

static void package_view_again(struct err *e)
{
	(void)err_set(e, ERR_CONFLICT, "another session was about to fetch it");
}

void package_view_loaded(struct package_view *v, const struct err *e,
			 const struct egress_session *only)
{
	struct completions *told = take_waiting(v);
	struct err other = { 0 };

	package_view_again(&other);
	v->refs++;
	while (told->first != NULL)
		completion_end(told->first,
			       only == NULL || wait_of(told->first)->session == only ? e : &other);
	v->refs--;
	trim_soon(v->all);
}

void package_view_queued(struct package_view *v, const struct egress_session *session)
{
	struct completions *waiting = take_waiting(v);
	struct err other = { 0 };

	package_view_again(&other);
	v->refs++;
	while (waiting->first != NULL) {
		struct package_view_wait *w = wait_of(waiting->first);

		if (w->session == session)
			completion_begin(&w->done, session->egress->loop, &v->waiting[v->current]);
		else
			completion_end(&w->done, &other);
	}
	v->refs--;
}

static struct package_view *package_view_first(struct egress *g)
{
	return g->package_views == NULL ? NULL : g->package_views->newest;
}

/* No session is left. */
static void forget_all(struct egress *g)
{
	LIST_WALK_ENDING(struct package_view, v, package_view_first(g)) {
		/* alone: an idle view has no waiter to call */
		if (is_idle(v))
			view_free(v);
	}
}

void package_views_leave(struct egress_session *session)
{
	struct err ended = { 0 };
	struct package_view *v = package_view_first(session->egress);

	package_view_again(&ended);
	while (v != NULL) {
		if (!package_load_is_of(v, session)) {
			v = v->next;
			continue;
		}
		package_load_cancel(v);
		package_view_loaded(v, &ended, NULL);
		v = package_view_first(session->egress); /* the list may have changed */
	}
	if (session->egress->sessions == session && session->next == NULL)
		forget_all(session->egress);
}

/* ---- what changed */

bool package_view_is_changed(const struct package_view *v, const char *file)
{
	return package_changes_is_changed(&v->changes, file);
}

void package_view_confirm(struct package_view *v)
{
	v->confirmed_ms = v->fetched_ms;
}

/* An alarm: in the log, and in records of requests about the file. The cache keeps it, for
 * processes that never saw the older document. */
static void on_backdated(const struct package_facts *f, void *arg)
{
	static struct log_limit limit = { .burst = 10, .interval_ms = 60000 };
	const struct package_view *v = arg;
	const struct cache_key key = { .scope = v->scope, .registry = v->registry, .path = "" };
	unsigned long long dropped;
	char name[CACHE_NAME_MAX];

	package_view_backdated_name(v->name, package_changes_name(f), name);
	cache_note(v->egress, &key, name);
	if (log_limit(&limit, &dropped))
		log_warn("new version claims to be older than the last metadata without it",
			 "registry=%s name=%s version=%s file=%s", v->registry, v->name, f->version,
			 f->file);
}

void package_view_backdated_name(const char *name, const char *file, char ret[CACHE_NAME_MAX])
{
	(void)snprintf(ret, CACHE_NAME_MAX, "backdated %s@%s", name, file);
}

bool package_view_compare(struct package_view *v, const struct package_document *d, size_t *at)
{
	const struct package_changes_pair pair = { .was = v->doc == NULL ? NULL : v->doc->meta,
						   .was_ms = v->confirmed_ms,
						   .is = d->meta,
						   .now_ms = clock_wall_ms(),
						   .by_version = v->doc_kind == DOC_NPM };

	return v->doc != NULL && package_changes_compare(&v->changes, &pair, at, on_backdated, v);
}

void package_view_replace(struct package_view *v, struct package_document *d)
{
	if (v->doc != NULL) {
		v->all->memory -= package_meta_memory(v->doc->meta);
		package_document_drop(v->doc);
	}
	v->doc = d;
	package_view_confirm(v);
	v->all->memory += package_meta_memory(d->meta);
}
