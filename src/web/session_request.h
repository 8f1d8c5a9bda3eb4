/* session_request.h - creates a session for a request. The session is ended if the client
 * disconnects before it received the id. */
#pragma once

#include "request.h"

/* A session that is being made, as a part of a request's state. Uses the request's wait. */
struct session_making {
	struct request *r;
	struct session *s; /* until the result is known; NULL: creation could not begin */
	bool is_known;
	/* It runs, and its template's start command is ready; or e is why it does not. Called from
	 * inside of session_making_start() or later, once. */
	void (*on_made)(struct session_making *m, struct session *s, const struct err *e);
};

/* on_made is set. On failure nothing is being created; *ret_retry_s as in session_create(). */
int session_making_start(struct session_making *m, struct request *r, struct session_spec *spec,
			 unsigned *ret_retry_s, struct err *e) MUST_USE;
/* In the request's release function; safe if it was never started. Ends a session that on_made was
 * not called for. */
void session_making_release(struct session_making *m);

/* The same for a request that is answered when the session runs: on_created is called then, from
 * inside or later, to answer; a later failure is answered here. Uses the request's state. On
 * failure nothing is being created, and the caller answers. */
int session_request_start(struct request *r, struct session_spec *spec,
			  void (*on_created)(struct request *r, struct session *s),
			  unsigned *ret_retry_s, struct err *e) MUST_USE;

/* Counts the work of reading the body of a request for a session, which is done also if the session
 * is refused afterwards. REASON_QUOTA_RATE. */
int session_request_count(struct tenant *t, const void *body, size_t len, struct err *e) MUST_USE;
