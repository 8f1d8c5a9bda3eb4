/* dial.h - connections to ports inside a session's cell. PID 1 makes them and passes them out: the
 * daemon itself cannot connect to anything.
 *
 * The socket is hostile, as all that comes from a cell: PID 1 may hold it too, and may make it
 * block again at any time. So read and write it with recv(2), send(2) and MSG_DONTWAIT (or
 * splice(2) with SPLICE_F_NONBLOCK) only, and let dial_cancel() close it, who knows how not to be
 * held up. */
#pragma once

#include "session.h"

#define DIAL_MAX 512 /* of a session at a time: under way and held */

struct dial_call;

/* A member of a structure of the caller; stays where it is until done has an error or it is
 * cancelled. All zero but for done and arg before the first use. */
struct dial {
	/* It is connected: fd is lent until dial_cancel(). Or it is not: fd is -1, e says why, and
	 * d is free for another start.
	 *
	 * ERR_NOT_FOUND	no program listens at that port
	 * REASON_QUOTA_CONNECTIONS	DIAL_MAX
	 * REASON_UNAVAILABLE	the daemon has no descriptors left
	 * ERR_CONFLICT		the session is not running; REASON_GONE if it has ended
	 * ERR_UNSUPPORTED	the cell was made by an older version, or has no network at all
	 * ERR_SYSTEM		sys is ETIMEDOUT: neither connected nor refused within 5 s; others
	 */
	void (*done)(struct dial *d, int fd, const struct err *e);
	void *arg;		/* the caller's */
	struct dial_call *call; /* the core's; NULL: nothing is under way or held */
};

/* The session must be running (session_use). done comes once, later, never from inside the call,
 * unless dial_cancel() comes first. Port 0 is refused like a port without a listener. */
void dial_start(struct session *s, uint16_t port, struct dial *d);

/* Gives up waiting, or closes the connection: what the other side has not taken by now is lost. The
 * session may be gone. Harmless if nothing is under way or held. */
void dial_cancel(struct dial *d);

/* The core's: the session is over. Requests under way end with that error; connections that are
 * held stay with their holders. */
void dial_all_lost(struct session *s, const struct err *e);
