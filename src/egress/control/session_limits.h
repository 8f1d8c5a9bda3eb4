/* session_limits.h - the limits of a session: connections, requests per minute and bytes, of its
 * policy as a whole and of each rule. The amounts used are in session->used (limit_usage.h), and
 * are kept when the policy changes. Called by flow*.c and gateway*.c. */
#pragma once

#include "egress/control/egress_session.h"
#include "egress/control/limit_usage.h"

/* Called when the session's policy has changed. */
int session_limits_renew(struct egress_session *session, struct err *e) MUST_USE;

/* The following return false, and why, if the limit is reached. rule: the one that allowed it, or
 * NULL. */

/* Count one more connection of the session. */
bool session_limits_connection(struct egress_session *session, const char **ret_why);
void session_limits_connection_over(struct egress_session *session);
/* Count it as a connection of this rule, and no more of *by (NULL: of none). Set *by. On failure
 * nothing changes. */
bool session_limits_connection_by(struct egress_session *session, const struct policy_rule *rule,
				  struct limit_usage **by, const char **ret_why);
bool session_limits_request(struct egress_session *session, const struct policy_rule *rule,
			    const char **ret_why);

/* How many bytes may be moved this way now: at least `want`, unless fewer are left. Called right
 * before each move. 0: none, and why. */
uint64_t session_limits_left(struct egress_session *session, const struct policy_rule *rule,
			     enum limit_way way, uint64_t want, const char **ret_why);
/* Are there bytes left both ways? Called before a connection or request begins. */
bool session_limits_any_left(struct egress_session *session, const struct policy_rule *rule,
			     const char **ret_why);
/* Count moved bytes, no more than session_limits_left() returned. Called before anything else is
 * moved. */
void session_limits_moved(struct egress_session *session, const struct policy_rule *rule,
			  enum limit_way way, uint64_t n);
