/* session_request.h - creates a session for a request. The request is answered when the session
 * runs; the session is ended if the client disconnects before it received the id. */
#pragma once

#include "request.h"

/* Starts to create it; on_created is called when it runs, from inside or later, to answer; a later
 * failure is answered here. Uses the request's state. On failure nothing is being created, and the
 * caller answers; *ret_retry_s as in session_create(). */
int session_request_start(struct request *r, struct session_spec *spec,
			  void (*on_created)(struct request *r, struct session *s),
			  unsigned *ret_retry_s, struct err *e) MUST_USE;
