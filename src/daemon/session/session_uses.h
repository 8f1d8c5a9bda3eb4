/* session_uses.h - which uses of a session are in the audit log already. A use that can come at any
 * rate, as of a secret or of a port, is recorded when it comes first, and again after an hour.
 * Called by net_log.c, secret_audit.c and the proxy to ports. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/session.h"

#define SESSION_USES_MAX 64 /* records of uses of one kind in an hour */

/* Each has a bound of its own, so that one cannot hide another. */
enum session_uses_kind { SESSION_USES_SECRETS, SESSION_USES_PORTS, SESSION_USES_KINDS };

/* Owned by the session. All zeros: no use has a record yet. */
struct session_uses {
	uint64_t began_ns; /* the hour */
	uint64_t seen[SESSION_USES_MAX];
	unsigned n;
	uint64_t more; /* not recorded, since there were too many */
};

/* Has this use no record in this hour? Then the caller writes one, with *ret_more: how many others
 * had none since the last record. Texts of any length. */
bool session_uses_first(struct session *s, enum session_uses_kind kind, const char *const what[3],
			uint64_t *ret_more);
