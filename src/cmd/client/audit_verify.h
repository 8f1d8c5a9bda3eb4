/* audit_verify.h - verifies an exported audit log (audit_line.h) while it is read: the log is never
 * in memory. examples/verify.py is another implementation, and tests compare the two.
 *
 * Records are hashed into a tree (RFC 6962). At each checkpoint the root must be the signed one.
 * Everything up to the last good checkpoint is verified. */
#pragma once

#include "cmd/client/audit_line.h"
#include "lib/tlog/tlog_note.h"

#define AUDIT_WITNESSES_MAX 16
#define AUDIT_KEYS_MAX 256 /* of a log, one after the other */
#define AUDIT_GIVEN_MAX 16 /* keys known from elsewhere */

/* The exit status. */
enum audit_verdict { AUDIT_GOOD, AUDIT_CHANGED, AUDIT_INCOMPLETE, AUDIT_UNREADABLE };

struct audit_verify_rules {
	struct tlog_vkey keys[AUDIT_GIVEN_MAX]; /* known from elsewhere */
	size_t nkeys;				/* 0: the one that the log names is believed */
	/* A kept checkpoint: the log must extend it. NULL: none. */
	const struct tlog_note *since;
	struct tlog_vkey witnesses[AUDIT_WITNESSES_MAX];
	size_t nwitnesses;
	size_t quorum; /* that must have signed one checkpoint, or the one of `since` */
};

struct audit_found {
	enum audit_verdict verdict;
	char why[512];
	bool has_first_bad; /* CHANGED */
	uint64_t first_bad; /* the first record that cannot be believed */
	char origin[TLOG_NAME_MAX];
	uint64_t verified; /* records below it are the signed ones */
	uint64_t records, pruned, checkpoints, cosignatures;
	uint64_t witnessed; /* records below it are in a checkpoint that the quorum has signed */
	/* Times: more than two heartbeats without a record of the node, and steps back. */
	uint64_t holes, backwards;
	uint64_t erased; /* missing sealed values */
	bool has_time;
	int64_t last_ms; /* of the last record that a checkpoint has */
};

struct audit_verify;

/* rules is borrowed. NULL: no memory. */
struct audit_verify *audit_verify_new(const struct audit_verify_rules *rules);
void audit_verify_free(struct audit_verify *v);
/* False: the verdict is known, the rest of the log does not matter. */
bool audit_verify_add(struct audit_verify *v, const void *bytes, size_t len);
/* The end of the log. Valid until it is freed. */
const struct audit_found *audit_verify_end(struct audit_verify *v);
