/* rpc.h - the Connect protocol with its JSON codec, as far as E2B's clients use it: unary calls,
 * and calls answered with a stream of messages. The pure parts are in rpc_message.h.
 *
 * Errors of a stream are in its last frame, under HTTP 200; only errors before a sandbox was found
 * have a status of their own. If the sandbox has ended meanwhile, any failure is answered as in
 * sandbox_entry.c. */
#pragma once

#include <jansson.h>

#include "buf.h"
#include "json.h"
#include "request.h"
#include "rpc_message.h"

/* Bytes of a message, without a long base64 text (rpc_base64_stream.h): no other request is served
 * while a message is parsed. The longest are arguments of a program: 128 KiB for one of them, which
 * is 384 KiB if its characters are escaped. */
#define RPC_MESSAGE_MAX (1U << 20)

/* ---- unary */
/* Reads the body and calls on_message with the message (borrowed during the call), or answers with
 * an error. Sets the dialect. Until then the request's state is used here; the previous state is
 * restored before on_message is called. */
void rpc_read(struct request *r, void (*on_message)(struct request *r, json_t *message));
/* The same for a message of at most max bytes whose first long base64 text is decoded while it
 * arrives, see rpc_base64_stream.h: the bytes are on_message's to take over. */
void rpc_read_with_bytes(struct request *r, size_t max,
			 void (*on_message)(struct request *r, json_t *message, struct buf *bytes));
/* Sends what was written and releases it. */
void rpc_reply(struct request *r, struct json *j);
void rpc_reply_empty(struct request *r); /* {} */
/* Answers with an error in the format of the request: unary, or a stream that was not begun. */
void rpc_fail(struct request *r, enum rpc_code code, const char *format, ...) PRINTF(3, 4);

/* Is it JSON (stream: in envelopes), and not compressed? Else answers and returns false. */
bool rpc_check_head(struct request *r, bool stream);

/* Large bodies and the data read from them count against one bound for the whole node: false means
 * that it is reached. Each rpc_count() is undone by one rpc_uncount(). Small bodies are not
 * counted, so that a client which fills the bound does not block usual requests; their number is
 * bounded by that of connections. */
#define RPC_SMALL ((size_t)64 << 10)
static inline size_t rpc_countable(size_t bytes)
{
	return bytes > RPC_SMALL ? bytes : 0;
}
bool rpc_count(size_t bytes) MUST_USE;
void rpc_uncount(size_t bytes);

/* Connect-Timeout-Ms, 0 without one. ERR_INVALID. */
int rpc_timeout(struct request *r, uint64_t *ret_ms, struct err *e) MUST_USE;

/* ---- streams */
/* The same as rpc_read() for a call whose request is one envelope. */
void rpc_read_stream(struct request *r, void (*on_message)(struct request *r, json_t *message));

/* The first member of the request's state. At the client's pace: the caller checks
 * rpc_stream_ready() before it makes the next message, so what waits for a slow client is the
 * connection's bounded buffer and one message. */
struct rpc_stream {
	struct request *r;
	struct loop_timer keepalive, deadline;
	uint64_t keepalive_ns, sent_ns;
	const char *keepalive_message;
	struct loop_task turn;
	size_t spent;
	void (*on_room)(struct request *r);
	void (*on_deadline)(struct request *r);
	char *pending; /* owned: the rest of a frame */
	size_t len, sent;
	bool begun, sent_any, ended;
};

/* Starts the answer. keepalive: the message to send when nothing else was sent for the time in the
 * header Keepalive-Ping-Interval (seconds; 90 without). on_room: there is room, make messages; also
 * called with each keepalive, so that a missed notification does no harm. on_late: the time in
 * Connect-Timeout-Ms has passed; it must end the stream. NULL: that time does not limit the
 * stream. */
void rpc_stream_begin(struct rpc_stream *s, struct request *r, const char *keepalive,
		      void (*on_room)(struct request *r), void (*on_late)(struct request *r));
/* Can it take a message now? If not, on_room is called when it can. */
bool rpc_stream_ready(struct rpc_stream *s);
/* Sends one message (JSON); rpc_stream_ready() was true. */
void rpc_stream_send(struct rpc_stream *s, const char *message, size_t len);
/* Calls on_room after the callbacks of this turn. */
void rpc_stream_wake(struct rpc_stream *s);
/* The last frame: RPC_OK, or an error. What is pending is still sent. */
void rpc_stream_end(struct rpc_stream *s, enum rpc_code code, const char *message);
/* The sandbox has ended: the connection is closed without a last frame. */
void rpc_stream_drop(struct rpc_stream *s);
/* In the request's release function. Safe if it was never begun. */
void rpc_stream_release(struct rpc_stream *s);
