/* flow_accept.h - accepts connections from a session's TCP listener. Called by session_control.c.
 */
#pragma once

#include "egress/control/egress_session.h"

/* Accept queued connections, a bounded number per turn of the loop. -1: the listener cannot be used
 * any more, and the session must be detached. */
int flow_accept(struct egress_session *session) MUST_USE;
