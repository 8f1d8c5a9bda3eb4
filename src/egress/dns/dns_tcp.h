/* dns_tcp.h - DNS over TCP: connections of the cell to port 53. Called by flow_accept.c. */
#pragma once

#include "egress/control/egress_session.h"

/* Take the descriptor over. Nothing was read from it. Bounded in number and time. Closed by
 * dns_tcp_cut_all() at the latest. */
void dns_tcp_serve(struct egress_session *session, int fd);
void dns_tcp_cut_all(struct egress_session *session);
