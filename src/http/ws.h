/* ws.h - frames of WebSocket (RFC 6455), without extensions. Pure; the caller assembles messages,
 * and bounds them.
 *
 * To read: ws_head_read(), ws_order_check(), then ws_mask() for the payload as it arrives. */
#pragma once

#include "http1.h"

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

/* Close codes that are sent here. */
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
	uint64_t length; /* of the payload, below 2^63; bounded by the caller */
};

/* The value of Sec-WebSocket-Accept for a key of 1 to 64 characters, NUL-terminated. */
void ws_accept_key(struct http1_span key, char ret[WS_ACCEPT_LEN + 1]);

/* Returns the length of the head; 0: not complete; -1: it breaks the protocol: close with
 * WS_CODE_PROTOCOL. masked: what this peer must do; true for frames of a client. */
int ws_head_read(const void *bytes, size_t len, bool masked, struct ws_head *ret) MUST_USE;
/* Returns the length of the head. Asserts a head that ws_head_read() would accept. */
size_t ws_head_write(const struct ws_head *h, uint8_t ret[WS_HEAD_MAX]);
/* Masks or unmasks in place; offset: of data in its payload. */
void ws_mask(void *data, size_t n, const uint8_t mask[4], uint64_t offset);

/* Checks the order of frames: *open, false at first, is true inside a message of several fragments.
 * False: this frame may not come now: close with WS_CODE_PROTOCOL. */
bool ws_order_check(bool *open, const struct ws_head *h) MUST_USE;

/* Reads the payload of a close frame: 0 with its code (WS_CODE_NO_STATUS if it is empty) and
 * reason, or -1 if it breaks the protocol or is not UTF-8. */
int ws_close_read(const void *payload, size_t n, uint16_t *ret_code,
		  struct http1_span *ret_reason) MUST_USE;
/* Writes the payload of a close frame; a reason that does not fit is cut between characters.
 * Returns its length. The code must be one that may be sent (asserted). */
size_t ws_close_write(uint16_t code, const char *reason, uint8_t ret[WS_CONTROL_MAX]);

/* Checks that a text message is UTF-8, piece by piece. Starts zeroed. */
struct ws_text {
	uint8_t need;	   /* bytes of a character that are still to come */
	uint8_t low, high; /* the range of the next byte */
};
bool ws_text_feed(struct ws_text *t, const void *bytes, size_t n) MUST_USE;
bool ws_text_ended(const struct ws_text *t); /* not inside a character */
