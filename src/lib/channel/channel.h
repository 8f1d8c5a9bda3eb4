/* channel.h - a connection between two processes of a node: messages with descriptors, calls that
 * wait for answers, and the watch over a peer that hangs.
 *
 * A link (keeper_link.h, egress_link.h, cache_peer.h ...) embeds a channel, fills in the callbacks
 * and says by its rules how the channel works:
 *
 *	packets		a SOCK_SEQPACKET: one packet is one message
 *	frames		a SOCK_STREAM: messages as wire/frame.h has them. The descriptors of a frame
 *			are sent with its first byte and wait until the frame is whole
 *
 * Sending: channel_send() queues a message. The queue is sent at the end of the turn and whenever
 * the socket has room. A link with a queue of its own (because the request may go to another peer,
 * or another tenant is next) uses channel_offer() instead: the message is sent now or not at all.
 *
 * The end: a channel ends once per connection, for one of the reasons of enum channel_end.
 * on_hung is called first if the peer may still run: the link has it killed and replaced. Then the
 * socket is closed, on_end is called, and every call ends with REASON_PEER_DIED. A link may attach
 * the next connection in on_end, or later.
 *
 * Rules for callbacks: all come from the loop, never from inside a function of this file that a
 * link calls, with these exceptions: channel_offer(), channel_give_up(), channel_end() and
 * channel_attach() may end the connection. A callback may call every function of this file. The
 * channel may be freed in on_end only, and in callbacks of calls. */
#pragma once

#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/base/fd_reserve.h"
#include "lib/loop/completion.h"
#include "lib/wire/frame.h"

#define CHANNEL_PACKET_MAX ((size_t)32 << 10)
#define CHANNEL_FDS_MAX 64     /* that wait for their frame */
#define CHANNEL_SEND_FDS_MAX 4 /* of a message that channel_send() queues */

enum channel_end {
	CHANNEL_CLOSED,	  /* the peer closed its end */
	CHANNEL_REPLACED, /* another connection was attached */
	CHANNEL_LOST,	  /* the socket failed */
	CHANNEL_BROKEN,	  /* the peer broke the protocol, or channel_give_up() */
	CHANNEL_SILENT,	  /* the peer does not answer */
};

struct channel_rules {
	const char *peer; /* in errors: "cordon-pull" */
	bool framed;
	size_t in_max;	/* of a packet (CHANNEL_PACKET_MAX), or of the body of a frame */
	size_t out_max; /* bytes that may wait to be sent. 0: the link bounds them */
	/* Descriptors: of one packet, or that wait for their frames. A peer that sends more breaks
	 * the protocol. */
	unsigned fds_max;
	/* The peer may be taken over: its descriptors are received and closed by untrusted_fd.h.
	 * The second: only the descriptors come from such a process. */
	bool untrusted, untrusted_fds;
	/* After so many messages or bytes other work of the loop has its turn. 0: 32, and any. */
	unsigned turn_messages;
	size_t turn_bytes;
	/* Waiting frames outlive the connection. A frame sent in part is sent again as a whole. It
	 * must have no descriptors. */
	bool keeps_queue;
	bool answers_first; /* nothing is read while something waits to be sent */
	/* Lent by so many before each receive. NULL: none. */
	struct fd_reserve *reserve;
	unsigned lend;
	/* on_ping is called first_ping_ms after the connection began, and then every ping_ms,
	 * unless the peer owes an answer: any byte counts as one. One that owes it for patience_ms
	 * is silent. 0: no pings. */
	uint64_t first_ping_ms, ping_ms, patience_ms;
};

/* A message to be sent. */
struct channel_msg {
	const void *bytes; /* a packet, or a frame with its head */
	size_t len;
	const void *more; /* follows bytes */
	size_t more_len;
	int *fds; /* taken over in any case */
	size_t nfds;
};

/* A message that came. Valid during on_message, also if the connection ends in it. */
struct channel_got {
	const uint8_t *bytes; /* aligned for any structure */
	size_t len;
	struct frame frame; /* if the channel has frames */
	/* A packet had descriptors that found no room in this process. The packet of an untrusted
	 * peer has no bytes then. Of frames, see channel_take_fd(). */
	bool fds_lost;
};

struct channel {
	/* The owner's, set after channel_init(). Only on_message and on_end are required. */
	void *arg;
	/* -1: the peer broke the protocol. */
	int (*on_message)(struct channel *c, const struct channel_got *m, struct err *e);
	void (*on_end)(struct channel *c, enum channel_end how, const char *why);
	void (*on_hung)(struct channel *c, const char *why); /* CHANNEL_BROKEN, CHANNEL_SILENT */
	void (*on_ping)(struct channel *c);		     /* sends a question */
	void (*on_turn)(struct channel *c); /* the messages of one turn were handled */
	void (*on_room)(struct channel *c); /* nothing waits: the socket takes messages */
	struct channel_rules rules;

	/* To be read. */
	int sock;	   /* owned. -1: there is no connection */
	uint64_t since_ns; /* of the connection */
	size_t queued;	   /* bytes that wait to be sent */
	uint64_t emptied;  /* how often all of them were sent */

	/* For channel.c only. */
	struct loop *loop; /* borrowed */
	const char *file;
	struct loop_fd watch;
	struct loop_task flush, more;
	struct loop_timer live;
	struct channel_out *first, **end;
	bool full; /* the socket took no more */
	bool paused;
	bool idle; /* the peer owes nothing: channel_expect() */
	struct buf in;
	int fds[CHANNEL_FDS_MAX]; /* received, not taken yet */
	size_t nfds;
	uint64_t epoch; /* number of the connection */
	uint64_t heard_ns, pinged_ns, due_ns;
	struct completions calls;
	uint32_t last_id;
};

/* rules are copied. */
#define channel_init(c, l, r) channel_init_from(c, l, r, __FILE__)
void channel_init_from(struct channel *c, struct loop *l, const struct channel_rules *rules,
		       const char *file);
/* Close it, and drop what waits. No callback is called, calls are cancelled. Repeatable. */
void channel_release(struct channel *c);

/* Take the socket over. On failure it is closed. An earlier connection ends. */
int channel_attach(struct channel *c, int sock, struct err *e) MUST_USE;
static inline bool channel_is_up(const struct channel *c)
{
	return c->sock >= 0;
}

/* Queue a copy, wiped after it is sent. REASON_UNAVAILABLE: there is no connection. ERR_LIMIT: more
 * than out_max would wait. */
int channel_send(struct channel *c, const struct channel_msg *m, struct err *e) MUST_USE;
/* Send what waits now, as far as the socket takes it. The loop reports errors. */
void channel_send_now(struct channel *c);
/* For channels of packets. 1: sent. 0: not now: nothing was taken over, on_room is called when the
 * socket takes more. -1: the connection has ended. */
int channel_offer(struct channel *c, const struct channel_msg *m) MUST_USE;
bool channel_is_full(const struct channel *c);
/* No message is read and handled until it is called again with false. */
void channel_pause(struct channel *c, bool pause);

/* The next descriptor that came. The caller's. -1: there is none, or it found no room: of frames
 * one -1 stands for all that came with the frame. In on_message only. */
int channel_take_fd(struct channel *c);
/* How many channel_take_fd() has. */
size_t channel_fds(const struct channel *c);

/* The peer owes an answer, or the rest of it: it is silent if no other call comes within ms. 0: it
 * owes nothing, and the turn ends without a receive that would find nothing. For channels without
 * pings. */
void channel_expect(struct channel *c, uint64_t ms);

/* End the connection: the peer may still run and is to be replaced. No-op without one. */
void channel_give_up(struct channel *c, const char *why);
/* End the connection as if the peer had closed it. No-op without one. */
void channel_end(struct channel *c, const char *why);

/* ---- calls: requests with a number, which the answer repeats
 *
 * A call ends exactly once, from the loop, as completion.h says: by completion_end() when its
 * answer comes, by its deadline, or with the connection, or it is cancelled by completion_cancel().
 * All zeros: never begun. */

struct channel_call {
	struct completion done; /* the owner sets on_done and arg */
	uint32_t id;
};

/* The number of a new call: not 0, and none that waits has it. */
uint32_t channel_next_id(struct channel *c);
/* Begin to wait. The link then sends the request, or ends the call with the reason. */
void channel_call_begin(struct channel *c, struct channel_call *call, uint32_t id,
			uint64_t deadline_ms);
/* NULL: no call waits for that number. */
struct channel_call *channel_call_find(const struct channel *c, uint32_t id);
