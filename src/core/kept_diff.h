/* kept_diff.h - the list of what a session changed in its file system, kept at its end for those
 * who asked for it (keep_diff).
 *
 * When such a session is stopped, its cell is frozen, the list is read and written to the file
 * STATE/output/<session>.diff, and then the cell ends. The file appears whole, by rename, before
 * the row says that it is kept; a daemon that dies in between is followed by one that does the step
 * again. The file counts as stored output of the tenant and is removed with the session's records.
 */
#pragma once

#include "buf.h"
#include "session.h"

/* store_session.keep_diff */
enum kept_diff {
	KEPT_DIFF_NO,
	KEPT_DIFF_WANTED,
	KEPT_DIFF_KEPT,
	KEPT_DIFF_FAILED,
	KEPT_DIFF_STATES
};

/* "wanted", "kept", "failed"; NULL: none was asked for. */
const char *kept_diff_name(uint32_t state);

/* The list, in records as session_diff() gives them; the caller releases it. REASON_GONE: there is
 * none, and why. */
int kept_diff_read(struct core *c, const struct store_session *row, struct buf *ret,
		   struct err *e) MUST_USE;

/* ---- for the core's own files */

/* The session is stopping. True: its cell must live until the list is read, and is ended from here
 * then. False: nothing to do. */
bool kept_diff_start(struct session *s);
/* The cell is gone, or never was: what is not kept by now is not kept, unless an earlier daemon has
 * written the file. */
void kept_diff_settle(struct session *s);
/* PID 1 has died while the list was read. */
void kept_diff_cell_died(struct session *s);
/* The session leaves memory. */
void kept_diff_cancel(struct session *s);
/* The records of the session are being removed. */
void kept_diff_remove(struct core *c, struct tenant *t, const char *session_id);
