/* meter.h - adds up the use of a session over its life, for GET /v1/usage.
 *
 * Memory and disk are the use at the last look times the time since. Processor time and bytes are
 * the growth of counters. Kept in memory between two writes (once a minute while the session is
 * used, every five minutes else, and at its end). The time of the last addition is written with it:
 * the next daemon adds the time since then, with the cell's use when found, since the cell
 * continued. So a crash of the daemon loses memory and disk since the last write only of sessions
 * whose cells end before the next daemon finds them, and nothing of the counters. Called by
 * session_sample.c and at the end of a session. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/store/store_usage.h"

struct session;

/* Add the session's use since the last call. cpu_us 0: its processor time was not read. active: it
 * is in use, so its numbers are written more often. */
void meter_look(struct session *s, uint64_t cpu_us, bool active);
/* The session ends, and its last numbers are in its row: writes everything. If the caller has a
 * transaction open and it is not committed, the caller restores s->meter. */
int meter_end(struct session *s, struct err *e) MUST_USE;
