/* flow_sniff.h - the stage of a flow in which egress reads its first bytes, to find out its
 * protocol and the name in its ClientHello. Called by flow_accept.c. */
#pragma once

#include "flow.h"

/* Decides by what arrives: TLS, HTTP or other bytes; then calls the next stage. */
void flow_sniff(struct flow *f);
