/* gateway_end.h - how a request ends: answered, refused, failed or cut. Called by all other
 * gateway*.c. None of these frees the gateway (see gateway_base.h). */
#pragma once

#include "egress/gateway/gateway_base.h"

/* End the request with an answer of egress, or by a reset if its answer has begun. deny: by the
 * policy. fail: anything else. */
void gateway_deny(struct gateway *x, int status, const char *reason);
void gateway_fail(struct gateway *x, int status, const char *reason);
/* A limit of bytes this way is reached, and there are more: as gateway_deny(). */
void gateway_limit_reached(struct gateway *x, enum limit_way way);
/* The request is complete: records it, and keeps or closes both connections. */
void gateway_done(struct gateway *x);
/* Parts of these, for gateway.c: write the record. Release what belongs to the request. Close or
 * stop making the connection to the server. */
void gateway_record(struct gateway *x);
void gateway_clear_request(struct gateway *x);
void gateway_drop_server(struct gateway *x);
