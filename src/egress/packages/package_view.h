/* package_view.h - the metadata of packages as registries gave it: fetched, kept in the package
 * cache, read into facts, and shared by all requests of this process that may see it. Called by
 * package_gate.c.
 *
 * A view belongs to a scope (all tenants, or one), a registry with its hosts, and a document.
 * Requests for one being fetched wait for it. Facts are kept while there is room. The document
 * itself is a descriptor (of the cache, or memory), kept for some views only. If a registry later
 * names another digest or time for a known file, the file is remembered as changed, and the gate
 * refuses it. A new file that claims to be old is judged by its first sight (package_changes.h). */
#pragma once

#include "egress/control/egress_session.h"
#include "egress/packages/cache_link.h"
#include "egress/packages/package_changes.h"
#include "egress/packages/package_source.h"
#include "lib/loop/completion.h"

#define PACKAGE_VIEW_FRESH_MS 300000
#define PACKAGE_VIEW_STALE_MS (24ULL * 3600 * 1000)
#define PACKAGE_VIEW_FETCHES 8U		       /* of a session at a time. More wait */
#define PACKAGE_VIEW_TENANT_FETCHES 32U	       /* of a tenant in this process */
#define PACKAGE_VIEW_MEMORY ((size_t)32 << 20) /* of kept facts, in this process */
#define PACKAGE_VIEWS_MAX 2048U
#define PACKAGE_VIEW_FDS 64U /* documents kept open, and their bytes: some are memory */
#define PACKAGE_VIEW_BYTES ((uint64_t)32 << 20)

enum package_cached {
	PACKAGE_CACHE_BYPASS, /* no cache took part */
	PACKAGE_CACHE_MISS,
	PACKAGE_CACHE_HIT,
	PACKAGE_CACHE_REVALIDATED,
	PACKAGE_CACHE_STALE,
};
const char *package_cached_name(enum package_cached c);

struct package_load; /* package_load.h */
struct package_views;

/* A document and its facts, held by the view and by requests that use it. Never changes, but that
 * fd is closed and opened again while only the view holds it. */
struct package_document {
	unsigned refs;
	struct package_meta *meta;
	int fd; /* -1: closed */
	uint64_t size;
	struct digest raw; /* SHA-256 of the document */
};
struct package_document *package_document_hold(struct package_document *d);
void package_document_drop(struct package_document *d); /* also NULL */

struct package_view {
	/* For the gate, in on_done. */
	struct package_document *doc; /* NULL: none, see status */
	enum package_cached cached;
	uint64_t fetched_ms; /* wall clock */
	int status;	     /* 200, 404, another status of the registry. 0: it did not answer */
	bool is_denied;	     /* the network policy does not allow the fetch */
	char why[POLICY_REASON_MAX];

	/* For package_view*.c only. */
	struct package_views *all;
	struct egress *egress;
	struct package_view *prev, *next; /* all of them, the last used first */
	struct package_view *chain;	  /* of a bucket */
	uint64_t hash;
	unsigned refs;
	char *key; /* owned, as the texts below: what tells it from others */
	char *scope, *registry, *name, *target;
	char *path;  /* of the cache's key: the target, and the host if it is not the registry's */
	size_t host; /* of package_source */
	const char *accept;
	enum package_doc doc_kind;
	enum ecosystem ecosystem;
	struct package_hosts hosts;
	bool only_cache;
	char etag[CACHE_ETAG_MAX], modified[CACHE_DATE_MAX], type[CACHE_TYPE_MAX]; /* of doc */
	uint64_t stored_ns; /* monotonic: handed to the cache last */
	/* Those that wait for the present load, and those that wait for the next: a waiter told of
	 * the end of a load may ask again. */
	struct completions waiting[2];
	unsigned current;	   /* of waiting */
	struct package_load *load; /* NULL: none is in progress */
	uint64_t confirmed_ms;	   /* wall clock: when the registry last said doc */
	struct package_changes changes;
};

struct package_view_ask {
	struct egress_session *session;
	const char *scope;
	const struct package_registry *registry;
	const struct package_source *source;
	const char *name; /* of the package, in its normal form */
	bool tls;
	bool only_cache;	 /* nothing is fetched */
	uint64_t since_ms;	 /* what was fetched before is too old, wall clock. 0: none is */
	const char *credentials; /* header lines for a fetch. NULL: none */
	const struct owner *owner;
};

/* One that waits. Embedded in the gate. */
struct package_view_wait {
	struct completion done;	   /* on_done and arg are the owner's */
	struct package_view *view; /* held until package_view_put(). NULL: out of memory */
	struct egress_session *session;
	bool any_age; /* facts of any age are enough */
	bool raw;     /* the document is needed, not only facts */
};

/* End with an error only if the load was broken off (ERR_CONFLICT: ask again) or memory is out.
 * Else view->status has the result. w was zeroed once, or put. */
void package_view_get(struct package_view_wait *w, const struct package_view_ask *ask);
/* End the wait, and let the view go. No effect twice. */
void package_view_put(struct package_view_wait *w);
bool package_view_is_fresh(const struct package_view *v);
/* Did the registry say something else of this file before? */
bool package_view_is_changed(const struct package_view *v, const char *file);

/* The cache's name for the first sight of a file that claims to be older. */
void package_view_backdated_name(const char *name, const char *file, char ret[CACHE_NAME_MAX]);

/* The session is being detached: its fetches are broken off. */
void package_views_leave(struct egress_session *session);

/* ---- for package_load.c */

/* The load has ended: those that wait are told. e: see package_view_get(). only: if not NULL, it is
 * of concern for this session alone, and those of others ask again. */
void package_view_loaded(struct package_view *v, const struct err *e,
			 const struct egress_session *only);
/* The load of this session waits for its turn: those of others may be able to begin at once. */
void package_view_queued(struct package_view *v, const struct egress_session *session);
/* The registry says the same document again. */
void package_view_confirm(struct package_view *v);
/* A fetch has ended: a task of the loop lets the loads begin that wait for their turn, one in a
 * round, the oldest first. */
void package_views_start_soon(struct egress *g);
/* Compare some facts of the document that the view has with those of the next one, from *at, 0 at
 * first. Files whose facts differ are remembered. True: there are more. */
bool package_view_compare(struct package_view *v, const struct package_document *d,
			  size_t *at) MUST_USE;
/* Take the document over, when all was compared. */
void package_view_replace(struct package_view *v, struct package_document *d);
