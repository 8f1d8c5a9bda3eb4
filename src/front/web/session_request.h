/* session_request.h - creates a session for a request. The session is ended if the client
 * disconnects before it received the id. */
#pragma once

#include "daemon/session/session_fork.h"
#include "daemon/template/snapshot.h"
#include "front/web/request.h"

/* The creation of a session, as a part of a request's state. Uses the request's wait. */
struct session_making {
	struct request *r;
	struct session *s; /* until the result is known. NULL: creation could not begin */
	bool is_known;
	/* It runs, and its template's start command is ready. Otherwise e says why not. Called from
	 * inside session_making_start() or later, once. */
	void (*on_made)(struct session_making *m, struct session *s, const struct err *e);
};

/* on_made is set. On failure nothing is being created. *ret_retry_s as in session_create(). */
int session_making_start(struct session_making *m, struct request *r, struct session_spec *spec,
			 unsigned *ret_retry_s, struct err *e) MUST_USE;
/* For the request's release function. Safe before a start. End a session if on_made was not called
 * for it. */
void session_making_release(struct session_making *m);

/* Start a session for a request with an answer when it runs: on_created is called then, from inside
 * or later, to answer. A later failure is answered here. Use the request's state. On failure
 * nothing is being created, and the caller answers. */
int session_request_start(struct request *r, struct session_spec *spec,
			  void (*on_created)(struct request *r, struct session *s),
			  unsigned *ret_retry_s, struct err *e) MUST_USE;

/* Count the work of reading the body of a request for a session, even if the session is refused
 * afterwards. REASON_QUOTA_RATE. */
int session_request_count(struct tenant *t, const void *body, size_t len, struct err *e) MUST_USE;

/* ---- snapshots and forks
 *
 * Requests that wait for a session's capture: snapshots and forks, of the native interface and of
 * E2B's, which differ in their bodies and answers only. A client that disconnects ends the wait. A
 * snapshot is cancelled then. A fork's existing sessions stay. */

/* Answer the request: v is NULL if there is an error. found: of the capture. */
typedef void capture_answer_snapshot_fn(struct request *r, const struct template_version *v,
					const struct session_capture_found *found,
					const struct err *e);
void capture_answer_snapshot(struct request *r, struct session *s, const char *name,
			     uint64_t keep_ms, capture_answer_snapshot_fn *on_made);

/* Answer the request. Each session of f may have failed by itself. */
typedef void capture_answer_fork_fn(struct request *r, const struct session_fork *f,
				    const struct err *e);
struct capture_answer_fork {
	unsigned count;
	bool timeout_given, by_snapshot;
	uint64_t timeout_ms;
};
void capture_answer_fork(struct request *r, struct session *s,
			 const struct capture_answer_fork *how, capture_answer_fork_fn *on_forked);
