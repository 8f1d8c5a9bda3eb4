/* dns_udp.h - the UDP listener of a session: DNS queries of the cell. Called by session_control.c.
 */
#pragma once

#include "egress_session.h"

/* Reads and answers queued queries, a bounded number per call. Answers have the address that was
 * asked as their source, whichever it was. */
void dns_udp_serve(struct egress_session *session);
