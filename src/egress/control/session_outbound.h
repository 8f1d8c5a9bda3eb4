/* session_outbound.h - a connection to a server for a session: outbound_start() with its policy,
 * counted for it. Called by flow_relay.c and gateway_server.c. */
#pragma once

#include "egress/control/egress_session.h"
#include "lib/outbound/outbound.h"

static inline void session_outbound(struct egress_session *session, const struct policy_target *to,
				    struct outbound *o)
{
	const struct outbound_from from = { .loop = session->egress->loop,
					    .resolver = session->egress->resolver,
					    .lookups = &session->lookups,
					    .policy = &session->policy };

	outbound_start(&from, to, o);
}
