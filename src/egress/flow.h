/* flow.h - a connection of a cell, from the moment it is accepted: what it is, whether it may be,
 * and whom to give it to. */
#pragma once

#include "egress_session.h"

/* Accepts what waits at the session's listener, a bounded number at a time. */
void flow_accept(struct egress_session *g);
/* The policy is another one, or the secrets are: what no longer complies, or was sent with a secret
 * that it could not have now, is cut, with a record; what goes on is by a rule of the new policy.
 * The old one's rules, and the secrets as they were, are gone after this call. */
void flow_recheck(struct egress_session *g, const struct secrets *was);
void flow_cut_all(struct egress_session *g);
