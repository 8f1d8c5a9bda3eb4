/* mux.h - many streams over one byte stream: between a shim (cordon-shim, PID 1 of a cell) and the
 * guest's agent (cordon-init in gVisor or in a virtual machine). Both ends use this file. Bytes
 * from the other end are untrusted, and anything not exactly as described here is an error. Pure:
 * bytes in, events out, and frames into a buffer of the caller.
 *
 * Frames are those of frame.h. Stream 0 has messages (agent_msg.h, guest_msg.h), which the caller
 * writes itself. All other streams carry bytes, in one direction or in both:
 *
 *	DATA	at most MUX_DATA_MAX bytes, at least one
 *	EOF	no DATA follows in this direction
 *	CREDIT	u32: the sender takes so many more bytes
 *	RESET	u32 errno or 0: the last frame of its sender on this stream
 *	OPEN	struct mux_open: the first frame of a stream, unless a message has announced it
 *
 * Nothing is sent without credit, so that neither end has to wait for the other, and each has to
 * keep at most as many bytes as it gave credit for. A stream that a message announces (the pipes of
 * a program) begins with MUX_WINDOW in its directions. A stream that begins with OPEN has the
 * credit that OPEN has in one direction, and none in the other until the first CREDIT, the answer
 * to OPEN. The other answer is RESET.
 *
 * The shim chooses even numbers, the guest odd ones, below MUX_NUMBERS. Every stream ends with one
 * RESET from each end, and its number is free when both were sent: so no frame can ever be taken
 * for one of a later stream of the same number. When both directions had their EOF, each end sends
 * RESET 0 by itself. Frames that arrive after this end has sent RESET are checked and dropped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/wire/frame.h"

#define MUX_NUMBERS 4096U
#define MUX_DATA_MAX (256U << 10)
#define MUX_FILL_MAX (64U << 10) /* of DATA that mux_write() writes as a whole */
#define MUX_WINDOW (512U << 10)
#define MUX_CREDIT_STEP (128U << 10) /* CREDIT is sent for so many bytes, or half of a window */
#define MUX_CREDIT_MAX (16U << 20)   /* no end may have more */
#define MUX_OPEN_SIZE 40U
#define MUX_CONTROL_MAX (FRAME_HEAD + MUX_OPEN_SIZE) /* the longest frame but DATA */
#define MUX_FRAME_MAX (FRAME_HEAD + MUX_FILL_MAX)    /* the longest that mux_write() writes */

enum mux_type { MUX_DATA = 192, MUX_EOF, MUX_CREDIT, MUX_RESET, MUX_OPEN, MUX_TYPES_END };

/* Whose end this is. Also the lowest bit of the numbers that it chooses. */
enum mux_side { MUX_SHIM = 0, MUX_GUEST = 1 };

/* In which directions a stream carries bytes, as this end sees it. */
enum mux_way { MUX_IN = 1, MUX_OUT = 2, MUX_BOTH = 3 };

enum mux_kind {
	MUX_TCP = 1, /* guest: a connection to an address and port */
	MUX_DNS,     /* guest: one query and its answer, each with a length as in DNS over TCP. To a
			port other than 53: the length alone, of a datagram refused there */
	MUX_DIAL,    /* shim: a connection to a port of the guest's loopback */
	MUX_KINDS_END
};

struct mux_open {
	uint8_t kind;	     /* enum mux_kind */
	uint8_t family;	     /* 4 or 6. DIAL: 0 */
	uint16_t port;	     /* not 0 */
	uint8_t address[16]; /* the first 4 bytes with family 4, others 0. DNS: who was asked */
	uint64_t mark;	     /* TCP, DNS: of the program that asked (cell/init/base/tree_mark.h). 0:
				unknown */
	uint32_t credit;     /* what the opener takes */
};

struct mux_stream {
	void *arg; /* the caller's */
	struct mux_open open;
	uint32_t tx_credit, rx_credit; /* bytes that may still be sent, and that may still arrive */
	uint32_t owed;		       /* consumed, and CREDIT not sent yet */
	uint32_t step;		       /* CREDIT is sent when so much is owed */
	uint16_t next[2];	       /* in the two queues */
	uint16_t state;
	uint16_t reset_sys;
};

/* Called by mux_write() when a stream may send: writes up to max bytes (at least 1). Return how
 * many, 0 if there are none now (mux_want() tells when to ask again), -1 at the end of the
 * direction. It may call mux_reset() for this stream, and then returns 0. */
typedef ssize_t (*mux_fill)(void *arg, uint16_t number, void *stream_arg, uint8_t *to, size_t max);

/* Called before mux_fill, if there is one: sets up to max bytes aside, which the caller of
 * mux_write() sends behind the head of the frame without copying them into its buffer. Return how
 * many, 0 if the stream is to be filled as usual. */
typedef size_t (*mux_claim)(void *arg, uint16_t number, void *stream_arg, size_t max);

struct mux {
	enum mux_side side;
	size_t message_max; /* the longest body on stream 0 that may arrive */
	mux_fill fill;
	mux_claim claim; /* may be NULL */
	void *arg;	 /* of fill and claim */
	size_t claimed;	 /* by the last mux_write(): so many bytes belong behind those it wrote */
	uint16_t lowest; /* no number below is free for this end */
	uint16_t used;	 /* how many of its numbers are not free */
	struct {
		uint16_t head, tail;
	} queue[2]; /* numbers of streams with control frames to send, and with DATA or EOF */
	struct mux_stream streams[MUX_NUMBERS]; /* by number */
};

enum mux_event_kind {
	MUX_ON_NOTHING, /* a frame that does not concern the caller */
	MUX_ON_MESSAGE, /* message: on stream 0 */
	MUX_ON_OPEN, /* the other end opened a stream: mux_answer() or mux_reset(), now or later */
	MUX_ON_OPENED, /* the other end has answered this end's OPEN: bytes may be sent */
	MUX_ON_DATA,   /* bytes, len: mux_consumed() tells when they are out of the way */
	MUX_ON_EOF,
	/* The stream has ended: the last event of every stream that the caller has not reset. It
	 * may come before the answer to OPEN. After ON_EOF the bytes that arrived are complete. */
	MUX_ON_RESET,
};

struct mux_event {
	enum mux_event_kind kind;
	uint16_t number;
	void *arg; /* of the stream */
	struct frame message;
	struct mux_open open; /* ON_OPEN */
	const uint8_t *bytes; /* ON_DATA: borrowed from the buffer it was read from */
	size_t len;
	int sys;	/* ON_RESET */
	bool was_clean; /* ON_RESET: both directions had their EOF */
};

/* Begin again, with no stream. */
void mux_init(struct mux *m, enum mux_side side, size_t message_max, mux_fill fill, void *arg);
void mux_set_claim(struct mux *m, mux_claim claim);

/* Read the frame at the start of the bytes. Return how many it takes, 0 if it is not all there
 * yet, -1 if the other end broke the protocol: then nothing more may be read. A whole frame has at
 * most FRAME_HEAD + the larger of MUX_DATA_MAX and message_max bytes. */
int mux_read(struct mux *m, const uint8_t *bytes, size_t len, struct mux_event *ret,
	     struct err *e) MUST_USE;

/* Write one frame of one stream, if there is one to write: control frames first, then DATA and EOF
 * of the streams in turn. Return its length without claimed bytes, or 0. DATA and EOF are written
 * only if there is room for MUX_FRAME_MAX bytes, other frames only if there is room for
 * MUX_CONTROL_MAX. */
size_t mux_write(struct mux *m, uint8_t *to, size_t cap);

/* Would mux_write() have something to try? */
bool mux_has_output(const struct mux *m);

/* How many streams this end may begin now. */
unsigned mux_numbers_left(const struct mux *m);

/* A new stream of this end, which the caller announces in a message, written before the next
 * mux_write(). Return its number, 0 if none is free. */
uint16_t mux_announce(struct mux *m, enum mux_way way, void *arg);

/* A stream that a message of the other end has announced. */
int mux_accept(struct mux *m, uint16_t number, enum mux_way way, void *arg, struct err *e) MUST_USE;

/* Open a stream of this end. ON_OPENED or ON_RESET follows. Return its number, 0 if none is free.
 */
uint16_t mux_open(struct mux *m, const struct mux_open *open, void *arg);

/* Answers ON_OPEN: bytes may be sent in both directions, and credit is the number this end takes
 * (not 0). */
void mux_answer(struct mux *m, uint16_t number, uint32_t credit);

/* Change the arg of a stream. NULL until then after ON_OPEN. */
void mux_set_arg(struct mux *m, uint16_t number, void *arg);

/* There may be something to send on this stream, or its end. */
void mux_want(struct mux *m, uint16_t number);

/* n bytes of ON_DATA need no more room: they may be replaced by others. No effect after EOF. */
void mux_consumed(struct mux *m, uint16_t number, size_t n);

/* Give the stream up in both directions. There will be no more events of it. sys: 0 to 4095. */
void mux_reset(struct mux *m, uint16_t number, int sys);
