/* changes.h - the list of a session's changes in its file system, record by record: read from its
 * cell while it lives, and then from the file kept at its end (session_diff.h). The records are
 * untrusted. A malformed record ends the list. */
#pragma once

#include "front/web/request.h"
#include "lib/base/buf.h"
#include "lib/wire/diff_record.h"

struct changes {
	void (*on_change)(struct changes *l, const struct diff_record *c); /* A, C, D or T */
	/* All were given out, or e says why not. */
	void (*on_end)(struct changes *l, const struct err *e);
	/* The rest is changes.c's. */
	struct request *r;
	struct session_diff diff;
	struct changes_kept *kept; /* owned. NULL: no kept list is being read */
	struct buf record;	   /* an incomplete one */
	bool failed, whole;
	struct err why;
};

/* Read those of a session that runs (request_use()). The callbacks are set, the rest is zero. */
void changes_start(struct changes *l, struct request *r, struct session *s);
/* Read the kept changes of the request's session, if it has ended and keeps them, in pieces of work
 * of its tenant. False: there are none, and nothing is called. */
bool changes_read_kept(struct changes *l, struct request *r);
/* No callback follows. Safe if it is all zero. */
void changes_release(struct changes *l);
