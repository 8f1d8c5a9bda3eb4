/* session_request.h - a session that a request makes: answered when it runs, ended if the client
 * goes before it could learn of it. */
#pragma once

#include "request.h"

/* Starts to make it; made is called when it runs, from inside or later, to answer; a failure that
 * comes later is answered here. Uses the request's state. On failure nothing is being made, and it
 * is the caller's to answer; *ret_retry_s as in session_create(). */
int session_request_start(struct request *r, struct session_spec *spec,
			  void (*made)(struct request *r, struct session *s), unsigned *ret_retry_s,
			  struct err *e) MUST_USE;
