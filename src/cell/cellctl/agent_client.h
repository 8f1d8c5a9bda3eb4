/* agent_client.h - the client's end of channel B (agent_msg.h): sends requests to PID 1 of a cell
 * and checks everything that PID 1 sends, which may be taken over by the cell. Used by cordond
 * (daemon/cells/live_cell.c) and cordon run.
 *
 * In an event loop: watch a->sock for input always, and for output while agent_flush() returns 1.
 * No function blocks, except agent_next() with a wait. An idle agent holds no buffers.
 *
 * After a -1 with another error than ERR_LIMIT, ERR_CONFLICT or REASON_UNAVAILABLE the connection
 * cannot be used any more. */
#pragma once

#include <stdbool.h>

#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

#define AGENT_FDS 4
/* Bytes that may wait to be sent: a request that its client can make again later is refused as soon
 * as AGENT_OUT_BUSY wait. The others as soon as AGENT_OUT_MAX would be passed. */
#define AGENT_OUT_BUSY (256U << 10)
#define AGENT_OUT_MAX (AGENT_REQUEST_MAX + 4 * AGENT_OUT_BUSY)

/* The requests that wait for the PID 1s of one tenant. */
struct agent_account {
	size_t bytes, max;
};

struct agent_block;

struct agent {
	int sock;	    /* owned */
	int fds[AGENT_FDS]; /* owned: of the message in progress */
	uint32_t nfds;
	uint32_t have; /* bytes of that message */
	uint8_t bytes[FRAME_HEAD + sizeof(struct agent_event)];
	struct agent_block *out, **out_end; /* owned: requests still to be sent, in order */
	size_t out_bytes;		    /* of all of them */
	bool fds_wait; /* the descriptors of a LINGER, LISTEN_EGRESS or BOOT are among them */
	struct agent_account *account; /* borrowed. NULL: none */
};

/* Take the socket, blocking or not. The structure is not moved. */
void agent_init(struct agent *a, int sock);
void agent_release(struct agent *a);

/* Count what waits, now and later, for that account, which exists longer than the agent. NULL: for
 * none. */
void agent_count_for(struct agent *a, struct agent_account *account);

/* Each sends or queues one request. Return 0, -1 with ERR_LIMIT or REASON_UNAVAILABLE if too much
 * is queued (nothing is queued then, and the connection is still good), or -1 if PID 1 has exited.
 */
int agent_send_spawn(struct agent *a, const struct agent_spawn *s, struct err *e) MUST_USE;
int agent_send_signal(struct agent *a, uint32_t handle, int sig, struct err *e) MUST_USE;
int agent_send_kill_all(struct agent *a, struct err *e) MUST_USE;
/* mark: of a program removed by FORGET (handle is then a new one), or 0. */
int agent_send_kill_tree(struct agent *a, uint32_t handle, uint64_t mark, struct err *e) MUST_USE;
int agent_send_close_stdin(struct agent *a, uint32_t handle, struct err *e) MUST_USE;
int agent_send_resize(struct agent *a, uint32_t handle, uint16_t rows, uint16_t cols,
		      struct err *e) MUST_USE;
int agent_send_forget(struct agent *a, uint32_t handle, struct err *e) MUST_USE;
int agent_send_paused(struct agent *a, uint64_t ms, struct err *e) MUST_USE;
/* Only to a PID 1 of AGENT_VERSION_LEASE or later. 0: no lease. */
int agent_send_lease(struct agent *a, uint64_t ms, struct err *e) MUST_USE;
/* These only queue their request. The next flush sends it. */
int agent_queue_deadline(struct agent *a, uint64_t ms, struct err *e) MUST_USE;
int agent_queue_forget(struct agent *a, uint32_t handle, struct err *e) MUST_USE;
int agent_send_stat(struct agent *a, struct err *e) MUST_USE;
int agent_send_end(struct agent *a, struct err *e) MUST_USE;
/* port: not 0. Only to a PID 1 of AGENT_VERSION_DIAL or later. */
int agent_send_dial(struct agent *a, uint32_t handle, uint16_t port, struct err *e) MUST_USE;
/* Only to a PID 1 of AGENT_VERSION_EGRESS or later. The answer has EOPNOTSUPP if the cell has no
 * egress listener. owners: the cell's end of a socket for questions (owner_msg.h), taken in any
 * case. -1: none. An older PID 1 closes it. */
int agent_send_listen_egress(struct agent *a, int owners, struct err *e) MUST_USE;

/* fd: a bound AF_UNIX stream socket that does not listen yet. Taken in any case. ERR_CONFLICT while
 * another LINGER waits to be sent. lease_ms: how long the cell lives without a connection. 0:
 * without end. */
int agent_send_linger(struct agent *a, int fd, uint64_t lease_ms, struct err *e) MUST_USE;

/* The next three only to cordon-shim. BOOT with boot_fds_count(r->fds) descriptors, in the order of
 * boot_msg.h. They are taken in any case. ERR_INVALID: the request makes no sense. ERR_CONFLICT as
 * above. */
int agent_send_boot(struct agent *a, const struct boot_request *r, int *fds,
		    struct err *e) MUST_USE;
int agent_send_resume(struct agent *a, const struct boot_request *r, struct err *e) MUST_USE;
/* stay: the guest is not let run again. changes_max: so many bytes of changed pages will do instead
 * of its whole memory. */
int agent_send_snapshot(struct agent *a, bool stay, uint64_t changes_max, struct err *e) MUST_USE;

/* Read the text of a BOOTED or GUEST with HAS_TEXT: untrusted bytes, at most cap - 1, and a NUL.
 * "" if nothing came. */
void agent_read_text(const struct agent *a, const struct agent_event *v, char *ret, size_t cap);

/* Send queued requests. Return 0 if all are sent, 1 if the socket is full, -1 if PID 1 has
 * exited.
 */
int agent_flush(struct agent *a, struct err *e) MUST_USE;

/* Take the descriptors of the last received message, STARTED or HELD: in (-1: none) and the first
 * n of its outputs (-1: fewer came). Close the others. */
void agent_take_stdio(struct agent *a, const struct agent_event *v, int *in, int *outs, size_t n);

/* Receive the next message: return 1, or 0 if none is complete within wait_ms (0: do not wait), or
 * -1 if PID 1 has exited or breaks the protocol. Send queued requests while it waits.
 *
 * With STARTED, HELD, DIALED, EGRESS_LISTENS and SNAPSHOT_DONE the caller takes a->fds by setting
 * a->nfds to 0. The next call closes those left in a->fds. They are checked to be what agent_msg.h
 * says: pipes open in the right direction, or one PTY master. Of DIALED a TCP socket that does not
 * listen. Of EGRESS_LISTENS one that does (at any port), and a UDP socket. Non-blocking. Those of
 * SNAPSHOT_DONE, BOOTED and GUEST are sealed memory files, which no process can change. But of the
 * others PID 1 has the same open files and can make them block again at any time: a caller that
 * must not block uses calls that do not depend on it (splice(2) with SPLICE_F_NONBLOCK, send(2) and
 * recvmsg(2) with MSG_DONTWAIT, untrusted_accept(), poll(2) before a write is not enough, sockets
 * are closed with untrusted_close()). The caller checks whether a handle exists, and whether an
 * event comes twice. */
int agent_next(struct agent *a, int wait_ms, enum agent_type *ret_type, struct agent_event *ret,
	       struct err *e) MUST_USE;
