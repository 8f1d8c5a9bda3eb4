/* session_capture.h - makes a layer of what a session has written so far. Used by snapshots, forks,
 * pauses without memory and builds.
 *
 * The cell is frozen, a child of the keeper writes its changes to a pipe, cordon-storage makes a
 * layer of them, and the cell is thawed: always, also if a step fails; a daemon that dies meanwhile
 * leaves a mark in the row (session_cold.h), by which the next one thaws the cell. A paused session
 * stays frozen. One capture of a session at a time. Its bytes are counted before it starts. */
#pragma once

#include "session.h"

struct session_capture {
	struct completion done; /* on_done and arg are the caller's */
	/* Set when done ends without error. The layer has a use of kind STORE_LAYER_HELD, so it
	 * stays until session_capture_release() or the next start of the server. */
	char layer[STORE_ID_MAX];
	uint64_t bytes, entries;
	struct capturing *under_way; /* session_capture.c's */
};

/* kind: for store_layer. keep_frozen: it is not thawed if it succeeds. ERR_CONFLICT: another
 * capture is under way, or the session is neither running nor paused. */
void session_capture(struct session *s, const char *kind, bool keep_frozen,
		     struct session_capture *k);
/* done does not end, and the layer is removed. The session is thawed as ever. Repeatable. */
void session_capture_cancel(struct session_capture *k);
/* The caller has uses of its own now, or does not need it. */
void session_capture_release(struct core *c, struct session_capture *k);

/* ---- for the core's own files */

/* The session ends, or leaves memory. */
void session_capture_lost(struct session *s, const struct err *why);
/* The task core.next_capture: starts one that waits. */
void session_capture_start_next(struct loop_task *t);
/* An earlier daemon may have left it frozen. */
void session_capture_recover(struct session *s);
