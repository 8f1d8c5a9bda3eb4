/* audit_flood.h - records of which a client makes as many as it likes: its file operations. Beyond
 * a rate they are counted, and the log has the counts (doc/audit.md). So a key that may only use
 * sessions does not push the other records of its tenant out of `tenant_audit_max`.
 *
 * A record says when the counting begins, so a crash loses counts but never the fact. */
#pragma once

#include "daemon/audit/audit.h"

#define AUDIT_FLOOD_MAX (8U << 20) /* bytes of such records of a tenant at once, about */
#define AUDIT_FLOOD_RATE 4096	   /* bytes a second afterwards */
#define AUDIT_FLOOD_KEYS 8	   /* named in a record with counts */

/* Append the record, or count it. Failed operations have half of the room. moved: bytes of
 * content. Else as audit_append_facts(). */
int audit_flood_append(struct audit *a, const struct audit_record *r, const char *facts,
		       bool failed, uint64_t moved, struct err *e) MUST_USE;
/* Append records with all counts. */
void audit_flood_flush(struct audit *a);
