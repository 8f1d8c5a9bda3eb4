/* file_op.h - a file operation inside a cell: a built-in of PID 1 (doc/file-protocol.md), run as
 * the cell's user, with a stream in and a stream out. Its output is untrusted.
 *
 * The interfaces, volumes and builds use it. No callback comes from inside a call of the owner.
 */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session.h"

struct file_op; /* freed by itself after on_end or file_op_cancel */

struct file_op_events {
	/* Bytes of its standard output. Return how many were taken. Fewer means "not now": call
	 * file_op_resume() when there is room again. */
	size_t (*on_output)(struct file_op *op, const uint8_t *data, size_t len);
	/* There is room for input again. May be NULL. */
	void (*on_room)(struct file_op *op);
	/* It ended: status of the built-in, or e if it could not run or the cell died. All output
	 * has been taken before. The op is gone after this. */
	void (*on_end)(struct file_op *op, int status, const struct err *e);
};

/* Start an operation. argv: the built-in and its arguments. The session must be running
 * (session_use). Path rules of the session are added here: write = true uses its writable prefixes,
 * else the exportable ones. */
struct file_op *file_op_start(struct session *s, const char *user, const char *const *argv,
			      unsigned argc, bool write, const struct file_op_events *events,
			      void *arg, struct err *e) MUST_USE;
/* Start an operation of the server itself: the session's path rules do not apply, it has no time
 * limit, and it does not keep the session from being idle. */
struct file_op *file_op_start_inside(struct session *s, const char *user, const char *const *argv,
				     unsigned argc, const struct file_op_events *events, void *arg,
				     struct err *e) MUST_USE;
/* Is an operation of a client in progress? */
bool file_op_is_busy(const struct session *s);
void *file_op_arg(const struct file_op *op);

/* Take up to len bytes for its standard input, and return how many (0: on_room comes). Before the
 * built-in has started nothing is taken. */
size_t file_op_input(struct file_op *op, const void *data, size_t len);
void file_op_end_input(struct file_op *op);
void file_op_resume(struct file_op *op);
/* Kill the built-in. No callback is called after this. */
void file_op_cancel(struct file_op *op);

/* For session_stop.c: the cell is gone. */
void file_op_lost(struct file_op *op);
