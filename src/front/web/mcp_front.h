/* mcp_front.h - what HTTP endpoints of the Model Context Protocol share: who may call, and how
 * failures before a method are answered. */
#pragma once

#include "front/web/request.h"
#include "lib/mcp/server/mcp_request.h"

/* Does a present Origin name this server, and does Host where it listens for this machine only? A
 * page of another site could otherwise use a server on the machine of its visitor. */
bool mcp_front_allowed(const struct exchange *x, const struct config *config);
/* Answer 403 to one that may not. */
void mcp_front_refuse_origin(struct exchange *x);

/* Answer with a fault. q may be all zero: then the error has no id. */
void mcp_front_refuse(struct request *r, const struct mcp_request *q, const struct mcp_fault *f);
/* A failure of the server or the core outside of a method, as a dialect's fail(). */
void mcp_front_fail(struct request *r, const struct mcp_request *q, const struct failure *why);
/* WWW-Authenticate for a missing key, and for one without this scope. */
void mcp_front_challenge(struct request *r, const struct err *e);
void mcp_front_need_scope(struct request *r, const char *scope);
