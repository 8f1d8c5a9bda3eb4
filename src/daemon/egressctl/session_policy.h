/* session_policy.h - the network policy of a session: those of node, tenant and session, merged.
 *
 * There are three layers (policy.h): the operator's, the tenant's, and the session's own document,
 * or the node's default if it has none. They are checked together, so that a document is refused
 * when it is set and not when it is used. */
#pragma once

#include "daemon/session/session.h"

struct net_access;
int session_policy_setup(struct net_access *n, struct err *e) MUST_USE;

/* Set the session's own layer, as policy_select_read() wrote it. "" for the node's default. It is
 * checked together with the other layers, written, and sent to egress. w ends when it is in force,
 * or with an error (session_egress.h). -1: nothing has changed, and w is not used. A session with
 * network access keeps its sockets, so for it "none" becomes "deny". */
int session_policy_set(struct session *s, const char *document, const struct store_actor *who,
		       struct completion *w, struct err *e) MUST_USE;
/* Check a document together with the other layers and with quotas. */
int session_policy_check(struct core *c, const struct tenant *t, const char *document,
			 struct err *e) MUST_USE;

/* The session's own layer, or the node's default: a document of policy_select.h. */
const char *session_policy_of_row(const struct core *c, const struct store_session *row);
const char *session_policy_own(const struct session *s);
/* All layers as one. The caller frees *ret. document: the session's. */
int session_policy_merge_document(struct core *c, const struct tenant *t, const char *document,
				  char **ret, struct err *e) MUST_USE;
int session_policy_merge(const struct session *s, char **ret, struct err *e) MUST_USE;
