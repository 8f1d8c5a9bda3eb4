/* audit_checkpoint.h - checkpoints of audit logs: made when records are new, signed by
 * cordon-notary.
 *
 * See audit_checkpoint.c for what happens in a round. */
#pragma once

#include "daemon/audit/audit.h"
#include "lib/loop/completion.h"

/* w ends when a checkpoint covers every record that the log has now. ERR_SYSTEM with
 * REASON_UNAVAILABLE: cordon-notary cannot be asked. The caller sets the deadline. */
void audit_checkpoint_wait(struct audit *a, const char *tenant, struct completion *w);

/* Every 15 minutes, so that a cut end of a log is seen: node.heartbeat. Called once a
 * second. */
void audit_tick(struct audit *a);

/* Before the end: records get their checkpoint at once from now on. audit_is_idle(): every record
 * has one, or none can be signed. */
void audit_hurry(struct audit *a);
bool audit_is_idle(const struct audit *a);

struct audit_counts {
	uint64_t records, checkpoints, pruned; /* since the start */
	uint64_t alarms_rollback, alarms_fork, alarms_gap, alarms_key;
	uint64_t late_ms; /* since when checkpoints could not be signed. 0: they can */
	bool notary_up;
};
void audit_counts(const struct audit *a, struct audit_counts *ret);
