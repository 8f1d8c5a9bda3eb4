/* session_op.h - the long operations on a session: what is in progress, and how all of it ends with
 * the cell or with the session.
 *
 * An operation is a structure of the file that begins it. Its first member is a struct session_op.
 * A session has at most one of each kind (session.ops). It ends by itself, then its file calls
 * session_op_end() and frees it. Or it loses its cell, its session ends, or its session leaves
 * memory. Then it ends by its callback, in the order of the kinds: an operation that waits for
 * another one is before that one.
 *
 * Nothing here survives a restart. The row says what the next daemon continues or undoes
 * (session_adopted()).
 */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"

struct session;
struct session_op;

enum session_op_kind {
	SESSION_OP_DISK_BOOT,  /* session_disk.c: the next cell waits for its disk */
	SESSION_OP_GUEST_BOOT, /* session_guest.c: the next cell waits for its guest's images */
	SESSION_OP_SUSPEND,    /* session_suspend.c */
	SESSION_OP_CAPTURE,    /* session_capture.c */
	SESSION_OP_MEMORY,     /* session_memory.c. The structure is its caller's */
	SESSION_OP_REBOOT,     /* session_boot.c */
	SESSION_OP_SERVICES,   /* session_service.c */
	SESSION_OP_KEPT_DIFF,  /* session_diff.c */
	SESSION_OPS
};

/* An operation ends exactly once, so each callback leaves the array by session_op_end(), or the
 * operation remains in progress. */
struct session_op_calls {
	enum session_op_kind kind;
	/* The session ends, or has lost its cell. NULL: the operation goes on. */
	void (*on_lost)(struct session_op *op, const struct err *why);
	/* The session leaves memory. */
	void (*on_free)(struct session_op *op, const struct err *why);
};

struct session_op {
	const struct session_op_calls *calls;
	struct session *session; /* NULL: not in progress */
};

/* The kind is not in progress yet. */
void session_op_begin(struct session_op *op, struct session *s,
		      const struct session_op_calls *calls);
/* Repeatable. */
void session_op_end(struct session_op *op);
/* NULL: not in progress. */
struct session_op *session_op_find(const struct session *s, enum session_op_kind kind);

/* ---- for session_stop.c, session_suspend.c, session_alloc.c and core_run.c */

void session_ops_lost(struct session *s, const struct err *why);
void session_ops_free(struct session *s, const struct err *why);
