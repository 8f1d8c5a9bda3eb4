/* code_call.h - POST /execute to the port of a session's interpreter, as E2B's SDK runs code. The
 * proxy forwards it. As its filter, this part writes a record of it and masks the answer. Called by
 * sandbox_entry.c.
 *
 * No code reaches the interpreter before its record is in the store. The record ends exactly once,
 * before the client has the last line of the answer: with the answer, when it is cut, when the
 * client goes away, by a request that ends the execution, or with its session. */
#pragma once

#include "front/web/request.h"
#include "lib/net/forward.h"
#include "lib/wire/agent_msg.h"

#define CODE_CALL_PORT AGENT_CODE_PORT

struct code_call;

/* Is it one? The session's template or the core must have started the interpreter: what else
 * listens at that port is a server of the user's, whose answers pass as they are. */
bool code_call_is(const struct request *r, struct session *s, uint16_t port);

/* NULL: out of memory. */
struct code_call *code_call_new(struct request *r);
/* Add the filter. */
void code_call_options(struct code_call *k, struct forward_options *o);
/* Before anything else happens to the request. f may be NULL. */
void code_call_forwarded(struct code_call *k, struct forward *f);
/* The proxy got no answer. */
void code_call_unanswered(struct code_call *k);
/* In the on_done of the exchange. k may be NULL. */
void code_call_free(struct code_call *k, bool answered);
