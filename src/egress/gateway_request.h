/* gateway_request.h - reads requests of the program and decides what becomes of them. */
#pragma once

#include "gateway_base.h"

/* A head of n bytes is in cell.in. */
void gateway_request(struct gateway *x, size_t n);
/* Progress in GATEWAY_COLLECT: more of the body may be in cell.in. */
void gateway_collect(struct gateway *x);
