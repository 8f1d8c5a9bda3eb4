/* gateway.h - the stage of a flow in which egress speaks HTTP: every request of the program is
 * read, judged, written again and sent to its server, one at a time. Called by flow_sniff.c. */
#pragma once

#include "egress/flow/flow.h"

struct tls;

/* Take the flow's descriptor, and end the flow at its own end. tls: to terminate TLS with the
 * program. NULL: plain HTTP. A refused flow (f->answer) gets one answer with the reason. */
int gateway_start(struct flow *f, struct tls *tls, struct err *e) MUST_USE;
/* As gateway_start(), for a flow of egress itself, which speaks plain HTTP. tls: with the server.
 */
int gateway_start_internal(struct flow *f, bool tls, struct err *e) MUST_USE;
