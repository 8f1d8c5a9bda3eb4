/* rpc_base64_stream.h - decodes a long base64 text of a message while the message arrives. Pure,
 * fuzzed.
 *
 * Parsing the largest allowed input of a process as JSON takes most of a second, in which no other
 * client would be served. So the first long text is decoded here, piece by piece, and the message
 * gets RPC_BASE64_STREAM_MARK in its place, which cannot be base64. */
#pragma once

#include "lib/base/buf.h"

#define RPC_BASE64_STREAM_MARK "*lifted*"
#define RPC_BASE64_STREAM_FROM 4096 /* characters of a long text, in whole groups of four */

struct rpc_base64_stream {
	struct buf text;  /* the message without it */
	struct buf bytes; /* what it decodes to */
	enum { RPC_LIFT_OUTSIDE, RPC_LIFT_TEXT, RPC_LIFT_ESCAPE, RPC_LIFT_LONG } where;
	bool lifted;
	size_t begin;  /* of the current text: an index in text */
	char group[4]; /* characters of an incomplete group */
	unsigned ngroup;
};

void rpc_base64_stream_init(struct rpc_base64_stream *l, size_t max_text, size_t max_bytes);
void rpc_base64_stream_release(struct rpc_base64_stream *l);
/* More of the message. ERR_LIMIT. ERR_INVALID: a long text other than base64. */
int rpc_base64_stream_add(struct rpc_base64_stream *l, const uint8_t *data, size_t len,
			  struct err *e) MUST_USE;
