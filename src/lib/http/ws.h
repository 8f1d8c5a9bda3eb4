/* ws.h - frames of WebSocket (RFC 6455), without extensions. Pure. The caller assembles messages,
 * and bounds them.
 *
 * To read: ws_head_read(), ws_order_check(), then ws_mask() for the payload as it arrives. */
#pragma once

#include <sys/types.h>

#include "lib/http/http1.h"

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10
};

#define WS_CONTROL_MAX 125 /* payload of close, ping and pong */
#define WS_HEAD_MAX 14
#define WS_ACCEPT_LEN 28

/* Close codes sent here. */
#define WS_CODE_NORMAL 1000
#define WS_CODE_GOING_AWAY 1001
#define WS_CODE_PROTOCOL 1002
#define WS_CODE_NO_STATUS 1005 /* never sent: the frame had no code */
#define WS_CODE_NOT_TEXT 1007
#define WS_CODE_POLICY 1008
#define WS_CODE_TOO_BIG 1009
#define WS_CODE_INTERNAL 1011

struct ws_head {
	bool fin;
	bool masked;
	enum ws_opcode opcode;
	uint8_t mask[4];
	uint64_t length; /* of the payload, below 2^63. Bounded by the caller */
};

/* The value of Sec-WebSocket-Accept for a key of 1 to 64 characters, NUL-terminated. */
void ws_accept_key(struct http1_span key, char ret[WS_ACCEPT_LEN + 1]);

/* Return the length of the head. 0: not complete. -1: it breaks the protocol: close with
 * WS_CODE_PROTOCOL. masked: must this peer mask? True for frames of a client. */
int ws_head_read(const void *bytes, size_t len, bool masked, struct ws_head *ret) MUST_USE;
/* Return the length of the head. Asserts a head that ws_head_read() would accept. */
size_t ws_head_write(const struct ws_head *h, uint8_t ret[WS_HEAD_MAX]);
/* Mask or unmask in place. offset: of data in its payload. */
void ws_mask(void *data, size_t n, const uint8_t mask[4], uint64_t offset);

/* Check the order of frames: *open, false at first, is true inside a message of several fragments.
 * False: this frame may not come now: close with WS_CODE_PROTOCOL. */
bool ws_order_check(bool *open, const struct ws_head *h) MUST_USE;

/* Read the payload of a close frame: 0 with its code (WS_CODE_NO_STATUS if it is empty) and
 * reason, or -1 if it breaks the protocol or is not UTF-8. */
int ws_close_read(const void *payload, size_t n, uint16_t *ret_code,
		  struct http1_span *ret_reason) MUST_USE;
/* Write the payload of a close frame. A reason that does not fit is cut between characters.
 * Return its length. The code must be one that may be sent (asserted). */
size_t ws_close_write(uint16_t code, const char *reason, uint8_t ret[WS_CONTROL_MAX]);

/* Checks that a text message is UTF-8, piece by piece. Starts zeroed. */
struct ws_text {
	uint8_t need;	   /* bytes of a character still to come */
	uint8_t low, high; /* the range of the next byte */
};
bool ws_text_feed(struct ws_text *t, const void *bytes, size_t n) MUST_USE;
bool ws_text_ended(const struct ws_text *t); /* not inside a character */

/* ---- frames that a gateway passes on between a client and a server after 101
 *
 * Every byte belongs to a well-formed frame (known opcode, no reserved bits, control frames short
 * and whole, the shortest form of the length, fragments in order, nothing after Close), masked as
 * its side must. Frames of a client get a new masking key, so the client does not choose the bytes
 * on the wire: a server that only claimed to speak WebSocket cannot read them as a request. Pure
 * but for the random numbers that the caller gives. Used by src/egress. */

struct ws_walk {
	bool masked;   /* frames of a client */
	bool open;     /* inside a message of several fragments */
	bool closed;   /* Close was seen */
	uint64_t left; /* bytes left of this frame's payload */
	uint64_t frames;
	uint8_t change[4];		     /* XOR of the old and the new key */
	uint64_t offset;		     /* in its payload */
	void (*random)(void *ret, size_t n); /* for new keys */
};

/* random: fills a buffer. Needed for frames of a client only. */
void ws_walk_init(struct ws_walk *w, bool masked, void (*random)(void *ret, size_t n));
/* Check bytes not checked yet, and mask those of a client's frames again, in place. Return how
 * many of them may be sent on. The rest is the beginning of a head, to be given again with what
 * follows. -1: malformed, or a frame that may not come now. */
ssize_t ws_walk(struct ws_walk *w, uint8_t *bytes, size_t len) MUST_USE;
