/* capture_answer.h - requests that are answered when a session has been captured: snapshots and
 * forks, of the native interface and of E2B's, which differ in their bodies and answers only. A
 * client that disconnects ends the wait; a snapshot is cancelled then, sessions of a fork that are
 * there stay. */
#pragma once

#include "request.h"
#include "session_fork.h"
#include "snapshot.h"

/* Answers the request: v is NULL if there is an error. */
typedef void capture_answer_snapshot_fn(struct request *r, const struct template_version *v,
					const struct err *e);
void capture_answer_snapshot(struct request *r, struct session *s, const char *name,
			     uint64_t keep_ms, capture_answer_snapshot_fn *on_made);

/* The same; each session of f may have failed by itself. */
typedef void capture_answer_fork_fn(struct request *r, const struct session_fork *f,
				    const struct err *e);
struct capture_answer_fork {
	unsigned count;
	bool timeout_given, by_snapshot;
	uint64_t timeout_ms;
};
void capture_answer_fork(struct request *r, struct session *s,
			 const struct capture_answer_fork *how, capture_answer_fork_fn *on_forked);
