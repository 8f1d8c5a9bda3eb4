/* flow_connect.h - CONNECT, the request for a tunnel through the explicit proxy. Called by
 * flow_sniff.c. */
#pragma once

#include "flow.h"

enum flow_connect {
	FLOW_CONNECT_MORE,   /* the head is not complete */
	FLOW_CONNECT_TUNNEL, /* accepted: what follows is the first of the tunnel */
	FLOW_CONNECT_ENDED   /* refused or failed: the flow is freed */
};

/* bytes: what has arrived, still in the socket. A complete head is taken out of it. */
enum flow_connect flow_connect(struct flow *f, const char *bytes, size_t len) MUST_USE;
