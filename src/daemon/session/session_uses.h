/* session_uses.h - which uses are in the audit log already. A session can use a secret or a port at
 * any rate. The first use is recorded, and again one after an hour. Called by secret_audit.c and
 * the proxy to ports. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/session.h"

#define SESSION_USES_MAX 64 /* records in an hour, by kind */

/* Each has a bound of its own, so that one cannot hide another. */
enum session_uses_kind { SESSION_USES_SECRETS, SESSION_USES_PORTS, SESSION_USES_KINDS };

#define SESSION_USES_HASH 16 /* bytes. Two uses with the same eight are found in an hour */

/* Owned by the session. All zeros: no use has a record yet. */
struct session_uses {
	uint64_t began_ns; /* the hour */
	uint8_t seen[SESSION_USES_MAX][SESSION_USES_HASH];
	unsigned n;
	uint64_t more; /* not recorded, since there were too many */
};

/* Has this use no record in this hour? Then the caller writes one. *ret_more: how many others had
 * none since the last record. */
bool session_uses_first(struct session *s, enum session_uses_kind kind, const char *const what[3],
			uint64_t *ret_more);
