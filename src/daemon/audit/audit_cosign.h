/* audit_cosign.h - checkpoints that witnesses have signed, too. Each log keeps the last one.
 *
 * A checkpoint is stored only if the log signed it, and its root is that of the log's own tree. The
 * witnesses' keys are not known here: their lines are stored as they are, and verifiers judge them.
 */
#pragma once

#include "daemon/audit/audit.h"
#include "daemon/store/store_audit.h"

/* note: a signed note whose lines are those of witnesses (cosignature/v1), and the log's own unless
 * the log has it. verify: of Ed25519. *ret_lines: of how many witnesses the stored checkpoint is.
 * ERR_INVALID: malformed, or not signed by the log. ERR_CONFLICT: its root is another one, or a
 * later checkpoint is cosigned. ERR_LIMIT: too many lines. ERR_NOT_FOUND: no such log. */
int audit_cosign(struct audit *a, const char *tenant, const char *note, size_t len,
		 const struct store_actor *who, tlog_verify_fn *verify, struct tlog_checkpoint *ret,
		 unsigned *ret_lines, struct err *e) MUST_USE;
