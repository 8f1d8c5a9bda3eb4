/* meter.h - adds up what a session uses over its life, for GET /v1/usage.
 *
 * Memory and disk are what was held at the last look times the time since; processor time and bytes
 * are the growth of counters. Kept in memory between two writes (once a minute while the session is
 * used, every five minutes else, and at its end). Up to when it was added is written with it: the
 * next daemon adds the time since then, by what the cell holds when it is found, since the cell
 * went on living. So a crash of the daemon loses memory and disk since the last write only of
 * sessions whose cells end before the next daemon finds them, and nothing of the counters. Called
 * by session_sample.c and at the end of a session. */
#pragma once

#include "core.h"
#include "store_usage.h"

struct session;

/* A member of struct session. */
struct meter {
	bool begun;
	uint64_t seen_ns, written_ns; /* the last call, the last write */
	uint64_t cpu_us;	      /* at the last call */
	struct store_usage_sums held; /* not written yet */
	struct store_usage_mark mark; /* what has been written */
};

/* Adds what the session has used since the last call. cpu_us 0: its processor time was not read.
 * active: it is in use, so its numbers are written more often. */
void meter_look(struct session *s, uint64_t cpu_us, bool active);
/* The session ends, and its last numbers are in its row: writes everything. If the caller has a
 * transaction open and it is not committed, the caller restores s->meter. */
int meter_end(struct session *s, struct err *e) MUST_USE;
