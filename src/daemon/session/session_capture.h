/* session_capture.h - makes a layer of the files that a session has written so far. Used by
 * snapshots, forks, pauses without memory and builds.
 *
 * The cell is frozen, a child of the keeper writes its changes to a pipe, cordon-storage makes a
 * layer of them, and the cell is thawed: always, also if a step fails. A daemon that dies during a
 * capture leaves a mark in the row (session_suspend.h), by which the next one thaws the cell. A
 * paused session stays frozen. A session has at most one capture at a time. Its bytes are reserved
 * before it starts.
 */
#pragma once

#include "daemon/session/capture_values.h"
#include "daemon/session/session.h"

struct session_capture {
	struct completion done; /* on_done and arg are the caller's */
	/* Set when done ends without error. The layer has a use of kind STORE_LAYER_HELD, so it
	 * stays until session_capture_release() or the next start of the server. */
	char layer[STORE_ID_MAX];
	uint64_t bytes, entries;
	struct session_capture_found found;
	struct capturing *under_way; /* session_capture.c's */
};

/* Start a capture. kind: for store_layer. keep_frozen: do not thaw after success. ERR_CONFLICT:
 * another capture is in progress, or the session is neither running nor paused. */
void session_capture(struct session *s, const char *kind, bool keep_frozen,
		     struct session_capture *k);
/* Cancel: done does not end, and the layer is removed. The session is thawed as after any capture.
 * Repeatable. */
void session_capture_cancel(struct session_capture *k);
/* Give up the hold on the layer: the caller has uses of its own now, or does not need the layer. */
void session_capture_release(struct core *c, struct session_capture *k);

/* ---- for the core's own files */

/* The task core.next_capture: start a waiting capture. */
void session_capture_start_next(struct loop_task *t);
/* Thaw a cell that an earlier daemon may have left frozen. */
void session_capture_recover(struct session *s);
