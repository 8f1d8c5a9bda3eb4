/* dns_udp.h - the UDP listener of a session: DNS queries of the cell. Called by session_control.c.
 */
#pragma once

#include "egress/control/egress_session.h"

/* Read and answer queued queries, a bounded number per call. Answers have the asked address, any
 * one, as their source. */
void dns_udp_serve(struct egress_session *session);
