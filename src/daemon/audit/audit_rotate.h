/* audit_rotate.h - a new key for the checkpoints of all audit logs.
 *
 * See audit_rotate.c for the steps. */
#pragma once

#include "daemon/audit/audit.h"
#include "lib/loop/completion.h"

#define AUDIT_ROTATIONS_MAX 250 /* that a log remembers. Verifiers believe 256 keys of a log */

/* w ends when cordon-notary signs with a new key. The logs follow. The caller sets the deadline.
 * ERR_CONFLICT: a rotation is under way. ERR_LIMIT. ERR_SYSTEM with REASON_UNAVAILABLE. After
 * REASON_PEER_DIED and REASON_TIMEOUT the new key may be there. */
void audit_rotate(struct audit *a, const struct store_actor *who, struct completion *w);

/* The key before the present one, while it signs, too. "": there is no rotation. */
const char *audit_former_vkey(const struct audit *a);
