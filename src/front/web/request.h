/* request.h - one request: its key and tenant, its parameters, and the resources to release with
 * it.
 *
 * Created when the head of a request has arrived, attached to its exchange, and freed with it. A
 * handler stops all that it starts (waits, followers, file operations, timers) in its release
 * function, since a client may disconnect at any moment. Answering may end the exchange, so the
 * answer is the last thing a handler does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "daemon/store/store_actor.h"
#include "daemon/tenant/grant.h"
#include "daemon/tenant/tenant.h"
#include "lib/http/http1.h"
#include "lib/net/server.h"

#define REQUEST_ID_MAX 136 /* of an id in a path, with its NUL */

struct request;
struct route;
struct session_making;

/* A failure as the client gets it. */
struct failure {
	int status;
	const char *word;    /* for programs */
	const char *message; /* for people */
	bool platform;	     /* the server's fault, not the client's */
};

/* How an interface reports a failure. */
struct dialect {
	const char *interface; /* "api", "e2b" or "mcp", for the actor of events */
	void (*fail)(struct request *r, const struct failure *f);
	/* Add WWW-Authenticate for a missing key or one with too small a scope. NULL: the plain
	 * one, for a missing key. */
	void (*challenge)(struct request *r, const struct err *e);
};

struct request {
	struct core *core;
	void *interface; /* data of the interface that made the request */
	const struct dialect *dialect;
	struct exchange *x;
	const struct route *route; /* NULL: none */
	struct tenant *tenant;	   /* NULL: no key was needed */
	unsigned scopes;
	struct store_actor actor;	 /* see request_actor() */
	struct grant grant;		 /* ends the request when its key is revoked or expires */
	char session_id[REQUEST_ID_MAX]; /* "": the route has none */
	char id[REQUEST_ID_MAX];
	char part[REQUEST_ID_MAX];     /* a second id in the path, of a part of the first */
	struct completion wait;	       /* for one operation at a time. Cancelled at the end */
	struct session_making *making; /* session_request.c's: part of state */
	struct once *once;	       /* owned: see once.h. NULL: no key */
	void (*on_session)(struct request *r, struct session *s); /* of request_use() */
	bool holds;						  /* see request_hold() */
	bool no_resume;	  /* a paused session is not resumed for it, but reported as gone */
	bool counted;	  /* see request_count() */
	bool streams;	  /* see request_stream() */
	size_t collected; /* see reply_count() */
	void *state;	  /* the handler's, freed at the end */
	void (*release)(struct request *r, bool answered); /* called before that. May be NULL */
};

/* Make the request of an exchange and set it as the exchange's argument. It is freed with the
 * exchange. NULL: out of memory, and the connection was dropped. */
struct request *request_new(struct core *core, struct exchange *x, const struct dialect *dialect,
			    void *interface) MUST_USE;

/* Allocate zeroed state for a handler. NULL: out of memory, and the request was answered. */
void *request_state(struct request *r, size_t size,
		    void (*release)(struct request *r, bool answered)) MUST_USE;
/* Release and free the state early. Another one may follow. */
void request_drop_state(struct request *r);

/* ---- parameters of the query. Each returns -1 (ERR_INVALID, naming it) if malformed. *ret is not
 * written if absent. */
int request_text(struct request *r, const char *name, char *ret, size_t cap,
		 struct err *e) MUST_USE; /* ret is "" if it is not there */
int request_number(struct request *r, const char *name, uint64_t min, uint64_t max, uint64_t *ret,
		   struct err *e) MUST_USE;
int request_bool(struct request *r, const char *name, bool *ret, struct err *e) MUST_USE;
/* One of count words. *ret is its place. */
int request_choice(struct request *r, const char *name, const char *const *words, unsigned count,
		   unsigned *ret, struct err *e) MUST_USE;

/* The actor of this request, for events. The request must have been allowed. Borrowed until the
 * request ends. */
const struct store_actor *request_actor(struct request *r);
/* Whom the client names in X-Cordon-Actor: it is not verified. ERR_INVALID: it is not one text of 1
 * to 128 bytes. */
int request_claim(const struct request *r, char ret[STORE_ACTOR_BEHALF_MAX],
		  struct err *e) MUST_USE;

bool request_is_head(const struct request *r);

/* Count it for its tenant (r->tenant) until it ends. From now on it is ended when its key or its
 * tenant is revoked. ERR_LIMIT: the tenant has too many. */
int request_count(struct request *r, struct err *e) MUST_USE;

/* Count it as an open stream of its tenant until it ends. Before the answer begins.
 * REASON_QUOTA_STREAMS: the tenant has too many. */
int request_stream(struct request *r, struct err *e) MUST_USE;

/* ---- the session in the path */
/* Check that the session is this tenant's. *ret_live is NULL if it has ended. ERR_NOT_FOUND
 * otherwise. */
int request_owns(struct request *r, struct session **ret_live, struct err *e) MUST_USE;

/* The session, if it has not ended. NULL: answered. */
struct session *request_session(struct request *r);

/* Call on_session with the session running (resumed if necessary and allowed), at once or
 * later, or answer why not. */
void request_use(struct request *r, void (*on_session)(struct request *r, struct session *s));

/* The session is not idle until the request ends. */
void request_hold(struct request *r, struct session *s);

/* Has this turn of the loop lasted so long that other clients should be served first? Many
 * executions may end in one turn. */
bool request_turn_is_old(const struct request *r);

/* ---- the body */
/* on_body is called with the whole body if its type is JSON (or none is given), within the
 * configured bound and REQUEST_BODY_MAX. */
#define REQUEST_BODY_MAX ((size_t)64 * 1024)
void request_body(struct request *r,
		  void (*on_body)(struct exchange *x, const uint8_t *body, size_t len));
/* request_body() within JSON_MEMBERS_BODY_MAX, for the few handlers that need it. */
void request_long_body(struct request *r,
		       void (*on_body)(struct exchange *x, const uint8_t *body, size_t len));
/* request_body() within LOCKFILES_BODY_MAX, for bodies that lockfiles_fold() takes first. */
void request_lockfiles_body(struct request *r,
			    void (*on_body)(struct exchange *x, const uint8_t *body, size_t len));
/* The request of an exchange that a route handles. */
struct request *request_of(const struct exchange *x);
