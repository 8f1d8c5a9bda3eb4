/* gateway_server.h - the server's side of a request: an idle connection, or a new one. Called by
 * gateway.c, gateway_request.c and gateway_answer.c. */
#pragma once

#include "egress/gateway/gateway_base.h"

/* Get a connection to the server of the request, and send the request's head on it. fresh: a new
 * connection, not an idle one. */
void gateway_dial(struct gateway *x, bool fresh);
/* Progress in GATEWAY_DIAL. True if anything moved. */
bool gateway_dial_step(struct gateway *x);
/* The server's side ended too early: dials again if the request may be repeated, else fails. */
void gateway_server_lost(struct gateway *x);
