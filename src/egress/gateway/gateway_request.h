/* gateway_request.h - reads a request of the program, decides whether it is allowed, and starts to
 * send it on. Called by gateway.c. */
#pragma once

#include "egress/gateway/gateway_base.h"

/* A head of n bytes is in cell.in. */
void gateway_request(struct gateway *x, size_t n);
/* The package gate lets the request continue to its server. */
void gateway_proceed(struct gateway *x);
/* The package gate sends it to another host, with another target, since a registry redirected it:
 * it is judged again. */
void gateway_request_again(struct gateway *x, const struct endpoint *to, const char *target);
/* Progress in GATEWAY_COLLECT: more of the body may be in cell.in. */
void gateway_collect(struct gateway *x);
