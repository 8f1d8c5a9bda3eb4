/* allow.h - checks a new session against what its tenant and the key of the request are allowed
 * (store_allow.h). Called when a session is made and when its network is changed. A request without
 * a key (a token of the sandbox, the server itself) is bound by the tenant only. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "daemon/store/store_allow.h"

/* Check a row, already checked against the node's maxima. A default above the allowance is lowered.
 * A client's own value above it is refused: ERR_INVALID for a size, ERR_DENIED for a name. ret_key:
 * the key's allowance. */
int allow_session(struct core *c, const struct tenant *t, const struct session_spec *spec,
		  struct store_session *row, struct store_allow *ret_key, struct err *e) MUST_USE;

/* network: the name of a policy as policy_select_name() writes it, "pypi+npm". "none" and "deny"
 * are always allowed. */
int allow_network(struct core *c, const struct tenant *t, const struct store_actor *who,
		  const char *network, struct err *e) MUST_USE;

/* The longest timeout that may be set: the least of the node's, the tenant's and the key's. 0:
 * there is no maximum. */
int allow_timeout_max(struct core *c, const struct tenant *t, const struct store_actor *who,
		      uint64_t *ret_ms, struct err *e) MUST_USE;

/* The key's allowance, all zeros if key_id is "" or there is no such key. Fail if the store does.
 */
int allow_of_key(struct core *c, const char *key_id, struct store_allow *ret,
		 struct err *e) MUST_USE;
/* Does it forbid anything at all? */
bool allow_is_narrow(const struct store_allow *a);
