/* rpc.h - the Connect protocol with its JSON codec, as far as E2B's clients use it: unary calls,
 * and calls answered with a stream of messages. The pure parts are in rpc_message.h.
 *
 * Errors of a stream are in its last frame, under HTTP 200. Only errors before a sandbox was found
 * have a status of their own. If the sandbox has ended by then, any failure is answered as in
 * sandbox_entry.c. */
#pragma once

#include <jansson.h>

#include "front/e2b/base/rpc_message.h"
#include "front/web/paced_stream.h"
#include "front/web/request.h"
#include "lib/base/buf.h"
#include "lib/json/json.h"

/* Bytes of a message, without a long base64 text (rpc_base64_stream.h): no other request is served
 * while a message is parsed. The longest are arguments of a program: 128 KiB for one of them, and
 * 384 KiB with escaped characters. */
#define RPC_MESSAGE_MAX (1U << 20)

/* ---- unary */
/* Read the body and call on_message with the message (borrowed during the call), or answer with
 * an error. Set the dialect. Until then the request's state is used here. The previous state is
 * restored before on_message is called. */
void rpc_read(struct request *r, void (*on_message)(struct request *r, json_t *message));
/* rpc_read() for a message of at most max bytes. Its first long base64 text is decoded while it
 * arrives, see rpc_base64_stream.h: the bytes are on_message's to take over. */
void rpc_read_with_bytes(struct request *r, size_t max,
			 void (*on_message)(struct request *r, json_t *message, struct buf *bytes));
/* Send the writer's text and release the writer. */
void rpc_reply(struct request *r, struct json *j);
void rpc_reply_empty(struct request *r); /* {} */
/* Answer with an error in the format of the request: unary, or an unstarted stream. */
void rpc_fail(struct request *r, enum rpc_code code, const char *format, ...) PRINTF(3, 4);

/* Is it JSON (stream: in envelopes), and not compressed? Else answers and returns false. */
bool rpc_check_head(struct request *r, bool stream);

/* Large bodies and the data read from them count against one bound for the whole node: false means
 * that it is reached. Each rpc_count() is undone by one rpc_uncount(). Small bodies are not
 * counted, so that a client which fills the bound does not block usual requests. The number of
 * connections bounds theirs. */
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
/* rpc_read() for a call whose request is one envelope. */
void rpc_read_stream(struct request *r, void (*on_message)(struct request *r, json_t *message));

/* The first member of the request's state (paced_stream.h). */
struct rpc_stream {
	struct paced_stream paced;
	struct loop_timer deadline;
	uint64_t keepalive_ns;
	const char *keepalive_message;
	void (*on_deadline)(struct request *r);
};

/* Start the answer. keepalive: the message to send when nothing else was sent for the time in the
 * header Keepalive-Ping-Interval (seconds, 90 without). on_room: there is room, make messages. Also
 * called with each keepalive, so that a missed notification does no harm. on_late: the time in
 * Connect-Timeout-Ms has passed. It must end the stream. NULL: that time does not limit the
 * stream. */
void rpc_stream_begin(struct rpc_stream *s, struct request *r, const char *keepalive,
		      void (*on_room)(struct request *r), void (*on_late)(struct request *r));
/* Can it take a message now? If not, on_room is called when it can. */
bool rpc_stream_ready(struct rpc_stream *s);
/* Send one message (JSON). rpc_stream_ready() was true. */
void rpc_stream_send(struct rpc_stream *s, const char *message, size_t len);
/* Call on_room after the callbacks of this turn. */
void rpc_stream_wake(struct rpc_stream *s);
/* The last frame: RPC_OK, or an error. Pending messages go out before it. */
void rpc_stream_end(struct rpc_stream *s, enum rpc_code code, const char *message);
/* The sandbox has ended: the connection is closed without a last frame. */
void rpc_stream_drop(struct rpc_stream *s);
/* In the request's release function. Safe if it was never begun. */
void rpc_stream_release(struct rpc_stream *s);
