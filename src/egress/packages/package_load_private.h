/* package_load_private.h - what package_load.c and package_load.c share. For these two only.
 */
#pragma once

#include "egress/packages/package_fetch.h"
#include "egress/packages/package_load.h"
#include "egress/packages/package_redirect.h"
#include "lib/base/sha256.h"

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

/* Does a bounded piece of work on l->doc: reads it, then compares its facts with those of the view.
 * 1: there is more. 0: all is done. -1: it cannot be read. */
int package_load_read(struct package_load *l, struct err *e) MUST_USE;
