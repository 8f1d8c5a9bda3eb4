/* audit_check.h - compares the records of a log with the tree that was signed: each kept record
 * with its hash, each tile with the one above it, the root with that of the last checkpoint. Called
 * by front/rest/api_report.c in pieces.
 *
 * cordon-notary signs only what continues the signed tree, but it never sees a record. So a record
 * that was changed in the database, after it was hashed, is found here, and by a verifier. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/audit/audit.h"

enum audit_check_result {
	AUDIT_CHECK_RUNS, /* not finished */
	AUDIT_CHECK_GOOD,
	AUDIT_CHECK_CHANGED,  /* a record or hash is another one than was signed */
	AUDIT_CHECK_MISSING,  /* a record or hash is not there */
	AUDIT_CHECK_UNSIGNED, /* there is no checkpoint: nothing to compare with */
};

struct audit_check {
	struct audit *audit; /* borrowed */
	char tenant[STORE_ID_MAX];
	uint64_t log, epoch, first, size; /* size: of the checkpoint */
	uint64_t tile;			  /* the next one */
	uint64_t records;		  /* compared */
	uint64_t at;			  /* the first record that is wrong, about */
	uint8_t root[32];
	enum audit_check_result result;
};

/* Begin with the last epoch of the tenant's log. */
int audit_check_begin(struct audit *a, const char *tenant, struct audit_check *ret,
		      struct err *e) MUST_USE;
/* Compare a tile and its records, 256 at most. Return 1 if there are more. 0: see c->result. A
 * record that is missing ends the log by an alarm (doc/audit.md). */
int audit_check_step(struct audit_check *c, struct err *e) MUST_USE;
/* "good", ... */
const char *audit_check_name(enum audit_check_result result);
