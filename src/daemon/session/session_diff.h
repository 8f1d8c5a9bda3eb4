/* session_diff.h - lists the changes in a session's file system and keeps the list at the session's
 * end, if the client asked for it (keep_diff).
 *
 * When such a session is stopped, its cell is frozen, the list is read and written to the file
 * STATE/output/<session>.diff, and then the cell ends. The file appears whole, by rename, before
 * the row says that it is kept. After a daemon that died in between, the next one repeats the step.
 * The file counts as stored output of the tenant and is removed with the session's records.
 */
#pragma once

#include "daemon/session/session.h"

/* store_session.keep_diff */
enum kept_diff {
	KEPT_DIFF_NO,
	KEPT_DIFF_WANTED,
	KEPT_DIFF_KEPT,
	KEPT_DIFF_FAILED,
	KEPT_DIFF_STATES
};

/* "wanted", "kept", "failed". NULL: the client asked for none. */
const char *kept_diff_name(uint32_t state);

/* Open the kept list, which has records as session_diff() gives them. -1 with REASON_GONE: there is
 * none, and why. */
int kept_diff_open(struct core *c, const struct store_session *row, struct err *e) MUST_USE;

/* ---- for the core's own files */

/* Start to keep the list of an ending session. True: the cell must live until the list is read,
 * and this file ends it then. False: nothing to do. */
bool kept_diff_start(struct session *s);
/* Settle the outcome: the cell has gone, or never was. A list not kept by now counts as failed,
 * unless an earlier daemon has written the file. */
void kept_diff_settle(struct session *s);
/* PID 1 has died while the list was read. */
void kept_diff_cell_died(struct session *s);
/* Remove the kept list: the records of the session are being removed. */
void kept_diff_remove(struct core *c, struct tenant *t, const char *session_id);
