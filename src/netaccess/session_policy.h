/* session_policy.h - whom a session may contact: the policies of node, tenant and session as one.
 *
 * Three layers (policy.h): the operator's, the tenant's, and the session's own document, or the
 * node's default where it has none. They are checked together, so that a document is refused when
 * it is set and not when it is used. */
#pragma once

#include "session.h"

struct net_access;
int session_policy_setup(struct net_access *n, struct err *e) MUST_USE;

/* Sets the session's own layer, as policy_select_read() wrote it; "" for the node's default.
 * Checked together with the other layers, written, and sent to egress; w ends when it is in force,
 * perhaps from inside, or with the reason why it is not (session_egress.h). -1: nothing has
 * changed, and w is not used. A session that has network access keeps it: "none" becomes "deny"
 * then. */
int session_set_policy(struct session *s, const char *document, const struct store_actor *who,
		       struct completion *w, struct err *e) MUST_USE;
/* Would that document be possible, together with the other layers? */
int session_check_policy(struct core *c, const struct tenant *t, const char *document,
			 struct err *e) MUST_USE;

/* The session's own layer, or the node's default: a document of policy_select.h. */
const char *session_chosen(const struct core *c, const struct store_session *row);
const char *session_choice(const struct session *s);
/* All layers as one; the caller frees *ret. */
int session_merged(struct core *c, const struct tenant *t, const struct store_session *row,
		   char **ret, struct err *e) MUST_USE;
int session_policy(const struct session *s, char **ret, struct err *e) MUST_USE;
/* "none", "opening", "open" or "failed". */
const char *session_network_state(const struct session *s);
