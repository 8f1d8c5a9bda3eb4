/* changes.h - the list of what a session changed in its file system, record by record: read from
 * its cell while it lives, and from the file that was kept at its end (kept_diff.h) after that.
 * What comes is untrusted; a malformed record ends the list. */
#pragma once

#include "buf.h"
#include "diff_record.h"
#include "request.h"

struct changes {
	void (*on_change)(struct changes *l, const struct diff_record *c); /* A, C, D or T */
	/* All were given out; or e is why not. */
	void (*on_end)(struct changes *l, const struct err *e);
	/* The rest is changes.c's. */
	struct request *r;
	struct session_diff diff;
	struct buf record; /* an incomplete one */
	bool failed, whole;
	struct err why;
};

/* Reads those of a session that runs (request_use()). The callbacks are set, the rest is zero. */
void changes_start(struct changes *l, struct request *r, struct session *s);
/* Reads those that were kept of the request's session, if it has ended and keeps them: on_end is
 * called before this returns. False: there are none, and nothing was called. */
bool changes_read_kept(struct changes *l, struct request *r);
/* No callback follows. Safe if it is all zero. */
void changes_release(struct changes *l);
