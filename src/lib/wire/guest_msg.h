/* guest_msg.h - the messages on stream 0 between a shim and its guest's agent (mux.h).
 * doc/shim-protocol.md describes their use. Encoded and decoded by shim/ and init/guest_*.c.
 * Messages from the guest are untrusted. Pure.
 *
 * Beside the messages here, stream 0 has requests of channel B with their bodies unchanged: SPAWN,
 * SIGNAL, KILL_ALL, KILL_TREE, CLOSE_STDIN, RESIZE, FORGET, PAUSED, STAT, END. And events:
 * STARTED, FAILED, EXITED, ALL_DEAD, HELD, SYNCED, TREE_DEAD, STATED. Where an event of channel B
 * has descriptors, the event here is followed by one u16 for each: the number of the stream that
 * stands for it, announced by the guest.
 *
 * HELLO is the first message of the shim. If its generation is not that of the HELLO before, the
 * shim is another one: the guest drops every stream, kills programs not held, and answers READY,
 * HELD for each held program, SYNCED. Bytes that the guest had not sent, and input that it had not
 * delivered, stay with the program. If the generation is the same, streams stay, and the answer is
 * READY alone.
 *
 * QUIESCE is answered by QUIESCED, when all programs stand still, which they do until GO_ON or
 * HELLO was handled. It is the last frame of the guest until then. The shim sends nothing between
 * QUIESCE and these two. So nothing is on the way, and the guest can be saved: earlier messages
 * belong to this shim, the rest to the saved guest. Its body is GUEST_PAD zeros: they fill the
 * buffers of the guest's port, which its kernel uses in turn and does not clear, so that they keep
 * no message to the guest in its image.
 *
 * PING is answered by PONG. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/wire/agent_msg.h"
#include "lib/wire/mux.h"

#define GUEST_VERSION 1
/* On the console, from a kernel that took its timer for broken: another boot may well work. */
#define GUEST_NO_TIMER "the kernel has no timer that works"
#define GUEST_ENTROPY 64
#define GUEST_MACHINE_ID 32 /* lower-case hexadecimal digits */
#define GUEST_HOSTNAME_MAX 64
#define GUEST_EVENT_FDS 4
/* The longest body that may arrive on stream 0. */
#define GUEST_TO_SHIM_MAX (sizeof(struct agent_event) + sizeof(uint16_t) * GUEST_EVENT_FDS)
/* More than a port has: 1,024 one-page buffers. Each part of the bytes fills one. */
#define GUEST_PAD (AGENT_REQUEST_MAX + (128U << 10))
#define GUEST_TO_GUEST_MAX GUEST_PAD

enum guest_type {
	/* to the guest */
	GUEST_HELLO = 128,
	GUEST_QUIESCE,
	GUEST_GO_ON,
	GUEST_PING,
	/* from the guest */
	GUEST_READY = 160,
	GUEST_QUIESCED,
	GUEST_PONG,
	GUEST_TYPES_END
};

/* Flags of HELLO. */
enum {
	GUEST_EGRESS =
		1 << 0, /* the guest accepts connections of its programs itself, and sends OPEN
			 */
	GUEST_READ_ONLY = 1 << 1, /* only /tmp, /run, /dev/shm and the home are writable */
	GUEST_LOCKED = 1 << 2,	  /* the profile locked: uid and gid follow */
	GUEST_HELLO_FLAGS = (1 << 3) - 1,
};

/* The parts of HELLO that the guest's kernel did not allow. Of READY. */
enum {
	GUEST_NO_TIME = 1 << 0,
	GUEST_NO_ENTROPY = 1 << 1,
	GUEST_NO_HOSTNAME = 1 << 2,
	GUEST_NO_MACHINE_ID = 1 << 3,
	GUEST_NO_EGRESS = 1 << 4,
	GUEST_NO_LIMITS = 1 << 5,
	GUEST_NO_DISK = 1 << 6,
	GUEST_NO_PROFILE = 1 << 7,
	GUEST_NO_READ_ONLY = 1 << 8,
	GUEST_REFUSED_ALL = (1 << 9) - 1,
};

struct guest_hello {
	uint64_t generation; /* not 0 */
	uint64_t wall_ns;    /* of CLOCK_REALTIME, 0: leave it */
	uint32_t flags;
	uint64_t pids, memory_bytes, nofile; /* limits of all programs together. 0: none */
	uint64_t disk_bytes, inodes;	     /* size of the writable file system. 0: leave it */
	uint8_t entropy[GUEST_ENTROPY];
	char machine_id[GUEST_MACHINE_ID + 1]; /* "": leave it */
	char hostname[GUEST_HOSTNAME_MAX + 1]; /* "": leave it */
	/* Of all programs, with GUEST_LOCKED. Not 0. Without it they are not sent, so that agents
	 * in memory images of earlier versions understand the message. */
	uint32_t uid, gid;
};

/* The longest. */
#define GUEST_HELLO_SIZE \
	(8U * 7 + 4 + GUEST_ENTROPY + GUEST_MACHINE_ID + 3 + GUEST_HOSTNAME_MAX + 3 + 4 * 2)

struct guest_ready {
	uint64_t generation; /* of HELLO */
	uint32_t version;    /* GUEST_VERSION */
	uint32_t refused;    /* set of GUEST_NO_* */
	int32_t sys;	     /* why the first of them */
};

#define GUEST_READY_SIZE 20U

/* Write the body of HELLO. Return its length, 0 if a value is out of range. */
size_t guest_hello_write(const struct guest_hello *h, uint8_t ret_body[GUEST_HELLO_SIZE]);
int guest_hello_read(const struct frame *f, struct guest_hello *ret, struct err *e) MUST_USE;

void guest_ready_write(const struct guest_ready *r, uint8_t ret_body[GUEST_READY_SIZE]);
int guest_ready_read(const struct frame *f, struct guest_ready *ret, struct err *e) MUST_USE;

/* Check a message without a body: QUIESCE, GO_ON, PING, QUIESCED, PONG. */
int guest_empty_read(const struct frame *f, struct err *e) MUST_USE;

/* An event, with the streams that stand for its descriptors. */
struct guest_event {
	struct agent_event event;
	size_t nstreams;
	uint16_t streams[GUEST_EVENT_FDS];
};

/* Return the length of the body: at most GUEST_TO_SHIM_MAX. */
size_t guest_event_write(const struct guest_event *v, uint8_t ret_body[GUEST_TO_SHIM_MAX]);

/* Read any event that a guest may send. The numbers are different, odd and in range. Whether they
 * are free, mux_accept() tells. */
int guest_event_read(const struct frame *f, struct guest_event *ret, struct err *e) MUST_USE;

/* In which direction the i-th stream of a STARTED or HELD carries bytes, as the guest sees it. */
enum mux_way guest_event_way(const struct agent_event *v, size_t i);
