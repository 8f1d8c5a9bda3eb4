/* package_gate.h - the way of a request for a package, between the rules of the policy and the
 * server: it is recognised, judged by its name, judged by the registry's metadata, and then
 * refused, answered from the package cache, answered with shaped metadata, or sent on, with its
 * answer checked. Called by gateway*.c.
 *
 * The gate of a request begins when the rules have allowed it, and ends with the request. Between
 * them the gateway is in GATEWAY_PACKAGE while the gate waits, and in the states of every other
 * request afterwards. */
#pragma once

#include <stdbool.h>

struct gateway;

/* struct egress's package_begin. True: the gate has taken the request (answered, refused or
 * waiting). False: it continues as any other, perhaps with a gate that records it and checks the
 * answer. */
bool package_gate_begin(struct gateway *x);
/* struct egress's package_refused: the rules refuse the request, for this reason. If it is for a
 * package of a registry that the policy lists, the gate writes the record. True: it was answered
 * with a page that tells pip the reason. Else the caller answers it. */
bool package_gate_refused(struct gateway *x, const char *reason);
/* struct egress's package_stays: the policy has changed, and no gate judged the request. False: one
 * would judge it now, so it must be cut. x->reason says so. */
bool package_gate_stays(struct gateway *x);
