/* dial.h - connections to ports inside a session's cell. PID 1 makes them and passes them out: the
 * daemon itself cannot connect to anything.
 *
 * The socket is untrusted, like everything from a cell: PID 1 may hold it too, and may make it
 * block at any time. So callers read and write it only with recv(2), send(2) and MSG_DONTWAIT (or
 * splice(2) with SPLICE_F_NONBLOCK), and only dial_cancel() closes it, because close(2) could
 * block.
 */
#pragma once

#include "daemon/session/session.h"
#include "lib/wire/agent_msg.h"

#define DIAL_MAX AGENT_DIALS_MAX /* of a session at a time: in progress and held */

struct dial_call;

/* A member of a structure of the caller. It stays in place until on_done has an error or it is
 * cancelled. All zero but for on_done and arg before the first use. */
struct dial {
	/* Called once. Connected: fd is the caller's to use until dial_cancel(). Failed: fd is -1,
	 * e says why, and d can be started again.
	 *
	 * ERR_NOT_FOUND	no program listens at that port
	 * REASON_QUOTA_CONNECTIONS	DIAL_MAX
	 * REASON_UNAVAILABLE	the daemon has no descriptors left
	 * ERR_CONFLICT		the session is not running. REASON_GONE if it has ended
	 * ERR_UNSUPPORTED	the cell was made by an older version, or has no network at all
	 * ERR_SYSTEM		sys is ETIMEDOUT: neither connected nor refused within 5 s, or
	 * another errno
	 */
	void (*on_done)(struct dial *d, int fd, const struct err *e);
	void *arg;		/* the caller's */
	struct dial_call *call; /* the core's. NULL: nothing is in progress or held */
};

/* Start a connection. The session must be running (session_use). on_done comes once, later, never
 * from inside the call, unless dial_cancel() comes first. Port 0 is refused like a port without a
 * listener. */
void dial_start(struct session *s, uint16_t port, struct dial *d);

/* Stop waiting, or close the connection: bytes that the peer has not read by now are lost. Allowed
 * after the session has gone, and if nothing is in progress or held. */
void dial_cancel(struct dial *d);

/* For session_stop.c: the session has ended. Requests in progress end with that error. Connections
 * held by callers stay open until dial_cancel(). */
void dial_all_lost(struct session *s, const struct err *e);
