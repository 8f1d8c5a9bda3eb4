/* session_limits.h - what a session may use: connections, requests per minute, bytes; by its policy
 * as a whole and by rule. What it has used is in g->used (used.h), and goes on from policy to
 * policy.
 */
#pragma once

#include "egress_session.h"
#include "used.h"

/* For a session's new policy. */
int limits_renew(struct egress_session *g, struct err *e) MUST_USE;

/* Each: false, and why, if it is too much. rule: that allowed it, or NULL. */

/* One connection more of the session. */
bool limits_connection(struct egress_session *g, const char **ret_why);
void limits_connection_over(struct egress_session *g);
/* It is one of this rule from now on, and no more one of *by (NULL: of none), which is set. On
 * failure it stays what it was. */
bool limits_connection_by(struct egress_session *g, const struct policy_rule *rule,
			  struct used **by, const char **ret_why);
bool limits_request(struct egress_session *g, const struct policy_rule *rule, const char **ret_why);

/* How many bytes may go this way now, at most, asked right before each move: at least `want`,
 * unless fewer are left. 0: none, and why. */
uint64_t limits_left(struct egress_session *g, const struct policy_rule *rule, enum used_way way,
		     uint64_t want, const char **ret_why);
/* Is there anything left both ways? Asked before something begins. */
bool limits_any_left(struct egress_session *g, const struct policy_rule *rule,
		     const char **ret_why);
/* So many went, no more than limits_left() said; told before anything else moves. */
void limits_moved(struct egress_session *g, const struct policy_rule *rule, enum used_way way,
		  uint64_t n);
