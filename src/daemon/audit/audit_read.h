/* audit_read.h - reading a log is a record of that log.
 *
 * The pages of one reading are one record: those that the same key asks for within a minute after
 * each other, of the same epoch, session and type, each by a number behind that of the page before.
 */
#pragma once

#include <stdbool.h>

#include "daemon/audit/audit.h"

struct audit_reading {
	const char *how;	    /* "list", "follow", "export" */
	const char *session, *type; /* "": all */
	uint64_t epoch;		    /* 0: the last one */
	bool continues;		    /* after a record: */
	uint64_t after;
};

int audit_note_read(struct audit *a, const struct store_actor *who, const char *tenant,
		    const struct audit_reading *what, struct err *e) MUST_USE;
