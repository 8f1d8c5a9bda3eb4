/* counts.h - what a session has used, told to cordond: EGRESS_COUNTS (egress_msg.h has its form).
 */
#pragma once

#include <jansson.h>

#include "egress_session.h"
#include "used.h"

/* Everything that has changed. */
void counts_tell(struct egress_session *g);
/* A new cordond, or the same one over a new channel: all that was counted is told again, as what
 * the last one was told may not have been written. */
void counts_repeat(struct egress_session *g);
/* The session's own claim and that of one rule (NULL: none), now: it is in the channel's socket
 * when this returns, if there is a channel and it has room. */
void counts_claim(struct egress_session *g, struct used *of_rule);
/* "used" of an order: what was counted before, by another egress perhaps. Never counts down. */
void counts_restore(struct egress_session *g, const json_t *used);
