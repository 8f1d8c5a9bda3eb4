/* gateway_answer.h - reads a server's answer and passes it on to the program. Called by gateway.c.
 */
#pragma once

#include "egress/gateway/gateway_base.h"

/* Progress of the answer. True if anything moved. */
bool gateway_answer(struct gateway *x);

/* ---- checks a server's answer to a request for a WebSocket. */

/* NULL, or why it does not accept the requested WebSocket. */
const char *gateway_ws_flaw(const struct gateway *x, const struct http1_response *a);
