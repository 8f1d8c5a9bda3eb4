/* gateway.h - HTTP between a program in a cell and servers: every request is read, judged, written
 * anew and sent on, one at a time. */
#pragma once

#include "flow_inside.h"

struct gateway;
struct tls;

/* Takes the flow's descriptor; at its end it calls flow_end(). tls: what to show the cell, or NULL
 * for plain HTTP. A flow that was refused (its answer says so) gets one answer that says why. */
int gateway_start(struct flow *f, struct tls *tls, struct err *e) MUST_USE;
/* The policy has changed, or the secrets from what they were: the request under way is judged
 * again. May end the flow. */
void gateway_recheck(struct gateway *x, const struct secrets *was);
/* A request under way is recorded as cut. why: NULL if the flow ends by itself. */
void gateway_free(struct gateway *x, bool reset, const char *why);
