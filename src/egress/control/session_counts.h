/* session_counts.h - a session's use of its limits, sent to cordond as EGRESS_COUNTS (form:
 * egress_msg.h), and restored from what cordond sends back with a configuration. Called by
 * control_channel.c, session_control.c and, before bytes of a limit are moved, by
 * session_limits.c. */
#pragma once

#include <jansson.h>

#include "egress/control/egress_session.h"
#include "egress/control/limit_usage.h"

/* Send all counts changed since the last call. */
void session_counts_send(struct egress_session *session);
/* Send all counts again, over a new channel: the last cordond may not have stored its messages. */
void session_counts_send_all(struct egress_session *session);
/* Send the claim of the session and that of one rule (NULL: none) at once: they are in the
 * channel's socket when this returns, if there is a channel and it has room. */
void session_counts_claim(struct egress_session *session, struct limit_usage *of_rule);
/* used: the member of a configuration, counts of an earlier channel or egress process. Never
 * lowers a count. */
void session_counts_restore(struct egress_session *session, const json_t *used);
