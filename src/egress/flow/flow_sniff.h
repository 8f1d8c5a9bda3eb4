/* flow_sniff.h - the stage of a flow in which egress reads its first bytes, to find out its
 * protocol and the name in its ClientHello. Called by flow_accept.c. */
#pragma once

#include "egress/flow/flow.h"

/* Decide by what arrives: TLS, HTTP or other bytes. Then calls the next stage. */
void flow_sniff(struct flow *f);

/* ---- CONNECT, the request for a tunnel through the explicit proxy. Called by
 * flow_sniff.c. */

enum flow_connect {
	FLOW_CONNECT_MORE,   /* the head is not complete */
	FLOW_CONNECT_TUNNEL, /* accepted: what follows is the first of the tunnel */
	FLOW_CONNECT_ENDED   /* refused or failed: the flow is freed */
};

/* bytes: those received, still in the socket. A complete head is taken out of it. */
enum flow_connect flow_connect(struct flow *f, const char *bytes, size_t len) MUST_USE;
