/* datagrams.h - datagrams of a cell that reach nothing: counted for each destination, and recorded
 * once a second. Called by dns_udp.c, which receives copies of them, and by session_control.c. */
#pragma once

#include "egress/control/egress_session.h"

/* Count a datagram of len bytes. Make a record within a second. */
void datagrams_note(struct egress_session *session, const struct ip *to, uint16_t port, size_t len);
/* Record the counts, and free the table. No effect if there is none. */
void datagrams_release(struct egress_session *session);
