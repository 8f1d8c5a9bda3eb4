/* gateway_request.h - reads a request of the program, decides whether it is allowed, and starts to
 * send it on. Called by gateway.c. */
#pragma once

#include "gateway_base.h"

/* A head of n bytes is in cell.in. */
void gateway_request(struct gateway *x, size_t n);
/* Progress in GATEWAY_COLLECT: more of the body may be in cell.in. */
void gateway_collect(struct gateway *x);
