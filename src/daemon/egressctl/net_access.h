/* net_access.h - network access as a part of sessions (session_hooks.h): the policy of each
 * session, the channel to cordon-egress, and the records of what sessions tried to reach. Called by
 * cordond's main(). */
#pragma once

#include <stdint.h>

#include "daemon/session/session_hooks.h"

extern const struct session_part net_access_part;

/* Take over channel C of a new process of cordon-egress, the first one in that slot or a
 * replacement. */
int net_access_set_egress(struct core *c, unsigned slot, int channel_fd, struct err *e) MUST_USE;
/* Take over the channel of a new cordon-cache. */
int net_access_set_cache(struct core *c, int channel_fd, struct err *e) MUST_USE;

/* ---- how long and how old the list of advisories in the state directory is, for
 * metrics. cordon-egress gets the list itself from the supervisor. */
