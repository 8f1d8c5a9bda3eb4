/* gateway_splice.h - moves an answer's body from socket to socket without reading it. Called by
 * gateway_answer.c, gateway_body.c and gateway_end.c. */
#pragma once

#include "egress/gateway/gateway_base.h"

/* May the rest of the answer's body be moved this way? */
bool gateway_splice_allowed(const struct gateway *x);
/* Move as many bytes as possible, `most` at most. Return how many. */
uint64_t gateway_splice(struct gateway *x, uint64_t most);
/* Close the pipe, if there is one. */
void gateway_splice_end(struct gateway *x);
