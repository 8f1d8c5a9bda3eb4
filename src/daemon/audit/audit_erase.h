/* audit_erase.h - sealed values are erased: salts and texts go, the records stay (doc/audit.md).
 *
 * The record of an erasure comes first: audit.erased says who asked for it. Then the values go,
 * some records at a time. Erased values are overwritten in
 * the database and its journal. */
#pragma once

#include "daemon/audit/audit.h"

#define AUDIT_ERASE_NAMES 8

enum audit_erase_by { ERASE_SEQ, ERASE_SESSION, ERASE_ON_BEHALF };

struct audit_erasure {
	struct audit *audit;
	uint64_t log, next; /* the next record to look at */
	enum audit_erase_by by;
	uint64_t seq;
	char session[STORE_ID_MAX];
	char on_behalf[STORE_ACTOR_BEHALF_MAX];
	/* names of the values. None: all of them */
	char names[AUDIT_ERASE_NAMES][32];
	unsigned nnames;
	uint64_t records; /* that lost values */
};

/* Write the record, in the tenant's log. */
int audit_erase_begin(struct audit_erasure *x, const char *tenant, const struct store_actor *who,
		      struct err *e) MUST_USE;
/* 1: there is more to look at. 0: done. */
int audit_erase_piece(struct audit_erasure *x, struct err *e) MUST_USE;
/* At the end, also after a failure, and if no value was found: empty the journal of erased values.
 * An earlier erasure may have ended before it did that. */
int audit_erase_end(struct audit_erasure *x, struct err *e) MUST_USE;

/* Pure: the side without some values. *ret is owned, "" if none is left, NULL if none of them was
 * there. ERR_INVALID: it is no side. */
int audit_erase_side(const struct audit_erasure *x, const char *side, char **ret,
		     struct err *e) MUST_USE;
