/* secret_execution.h - secrets that one execution has for itself: checked when it starts, brought
 * into the cell or to cordon-egress before its program runs, taken back when it has ended. Their
 * values stay masked in the whole session until that ends. For the files of this folder. */
#pragma once

#include "daemon/execution/execution.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/session.h"

/* All lines that hold now: the session's, then those of its live executions. */
struct secret_walk {
	struct session *session;
	struct execution *execution; /* NULL: the session's own */
	const char *at;
	bool begun;
};
bool secret_walk_next(struct secret_walk *w, struct secret_spec *ret);

/* Hooks of secret_part.c: see session_hooks.h. */
int secret_check_execution(struct session *s, struct execution *x, const char *lines,
			   struct err *e) MUST_USE;
bool secret_prepare(struct session *s, struct execution *x, struct completion *w);
void secret_execution_ended(struct session *s, struct execution *x);
/* An earlier daemon left the session: which secrets its executions had is in the store. */
void secret_restored(struct session *s);

/* Has a live execution a secret as a file? */
bool secret_walk_has_file(struct session *s);
/* Does a line of these have one of these ways? */
bool secret_has_way(const char *lines, unsigned ways);
/* May other sessions begin with the memory of its guest? Not if programs in it got values: those of
 * the session, unless the others have the same, or those of an execution, live or ended.
 * REASON_SECRETS_IN_MEMORY: no. */
int secret_check_memory(struct session *s, bool same, struct err *e) MUST_USE;
