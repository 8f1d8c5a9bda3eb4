/* session_history.h - keeps the resources that a session used over its whole life, in points whose
 * span grows with its age (store_sample.h).
 *
 * A point is collected in memory and written when its span ends: every five seconds in the first
 * minutes of a session, every few minutes after a day. The rest of a point is written when the
 * daemon ends. A killed daemon loses at most one point. */
#pragma once

#include "daemon/session/session.h"
#include "daemon/store/store_sample.h"

/* ---- called by session_sample.c and at the end of a session */

/* Add the session's last sample. */
void session_history_look(struct session *s);
/* The session ends, and its last numbers are in its row: writes the last point. If the caller has
 * a transaction open and it is not committed, the caller restores s->history. */
int session_history_end(struct session *s, struct err *e) MUST_USE;
/* The session leaves memory: write the points not yet written. */
void session_history_forget(struct session *s);

/* ---- for the interfaces */

/* The point not yet written. False: there is none. */
bool session_history_open(const struct session *s, struct store_sample *ret);
/* The span of new points. */
uint64_t session_history_step(const struct session *s);
