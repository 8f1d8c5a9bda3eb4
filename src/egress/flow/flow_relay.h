/* flow_relay.h - the stage of a flow in which egress connects it to its endpoint and relays its
 * bytes unread. Called by flow_accept.c (any bytes are allowed) and flow_sniff.c (after its first
 * bytes). */
#pragma once

#include "egress/flow/flow.h"

/* May it be relayed without a look at its first bytes? */
bool flow_is_raw(const struct flow *f);
/* Connect it to its endpoint and relay, or refuse it. */
void flow_relay(struct flow *f);
