/* gateway_ws.h - checks a server's answer to a request for a WebSocket. */
#pragma once

#include "gateway_base.h"

/* NULL, or why it does not accept the WebSocket that was asked for. */
const char *gateway_ws_flaw(const struct gateway *x, const struct http1_response *a);
