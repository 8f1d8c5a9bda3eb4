/* egress_msg.h - channel C: whom cordon-egress serves, by which policy, and what happened.
 *
 * frame.h's frames over a Unix stream socket. cordond (or cordon run) believes egress no more than
 * it must: egress talks to hostile bytes on both sides. Every body begins with a session's id; what
 * follows is a text, JSON, not NUL-terminated. Descriptors travel with the first byte of a frame.
 *
 * Egress outlives cordond: when the channel ends it keeps its sessions for EGRESS_ORPHAN_MS, and
 * records wait. A new channel comes from the supervisor; then each live session is attached anew
 * (its connections go on), SYNCED ends the list, and sessions that were not in it are dropped. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "frame.h"
#include "session_id.h"

#define EGRESS_ID_MAX SESSION_ID_MAX  /* with its NUL */
#define EGRESS_TEXT_MAX (4U << 20)    /* to egress: policy and secrets */
#define EGRESS_RECORD_MAX (32U << 10) /* from egress; but prompts: EGRESS_PROMPT_MAX */
#define EGRESS_PROMPT_MAX (1U << 20)
#define EGRESS_ORPHAN_MS 30000

enum egress_type {
	/* to egress */
	EGRESS_ATTACH = 1, /* two descriptors: TCP listener, UDP resolver socket. Text: the order */
	EGRESS_CHANGE,	   /* text: a new order; connections that no longer comply are cut */
	EGRESS_DETACH,	   /* no text; everything of the session is cut and forgotten */
	EGRESS_SYNCED,	   /* id "", no text */
	EGRESS_PING,	   /* id "", no text; answered by PONG */
	EGRESS_REQUESTS_END,
	/* from egress */
	EGRESS_TAKEN = 64, /* answer to ATTACH and CHANGE: text "" if it is in force, else why not:
			      then the session is detached (fail closed) */
	EGRESS_RECORD,	   /* text: one event, see doc/network.md */
	EGRESS_COUNTS, /* text: see below; every 200 ms while they change, before bytes move that
			  were not claimed yet, and before the session goes */
	EGRESS_PONG,   /* id "", no text: answer to PING */
	EGRESS_TURNS,  /* id "", text: {"count","sum_ns","max_ns","slowest_ns","slowest",
			  "buckets":[..]}, see turns.h; every 5 s */
	EGRESS_EVENTS_END,
};

/* COUNTS, as JSON: totals of the session, begun with those of its order's "used":
 *	{"bytes_in", "bytes_out", "requests", "connections",
 *	 "claimed_in", "claimed_out",      what its limits have to count as used: bytes that went,
 *	                                   and those that may go before the next message
 *	 "rules": [{"rule": NAME, "claimed_in", "claimed_out"}]}       of rules with limits of
 *	                                   bytes, only those that have changed
 *
 * The order, as JSON:
 *	{"tenant": ID,                     whose it is; the same in all orders of a session
 *	 "used": {"bytes_in", "bytes_out", "requests", "claimed_in", "claimed_out", "rules": [..]},
 *	                                   as COUNTS, of all that was sent before, each the largest
 *	 "policy": {...},                  merged, see policy.h; or
 *	 "layers": ["..", "..", ".."],     node's, tenant's, session's document as text, "": none
 *	 "secrets": [{"name", "value", "placeholder", "hosts": [..], "methods": [..], "paths": [..],
 *	              "in": ["header", "header:NAME", "basic", "body:FIELD"], "expires_ms"}],
 *	 "mask": [{"value", "name", "hosts": [..]}, ...]}
 *	                                   further values never to be recorded, nor shown in answers
 *	                                   of servers that can know the secret of that name; a text
 *	                                   is a value that is never recorded
 */

/* Rules of a session whose counts are remembered: twice as many as a policy may have. */
#define EGRESS_RULES_KEPT_MAX 8192U

struct egress_msg {
	enum egress_type type;
	char id[EGRESS_ID_MAX];
	const char *text; /* borrowed from the frame; not NUL-terminated */
	size_t len;
};

/* Reads one frame of either direction, strictly: type, id ([a-z0-9_], or "" where said), text
 * within its bound and without NUL. */
int egress_msg_read(const struct frame *f, struct egress_msg *ret, struct err *e) MUST_USE;
/* How many descriptors must come with it. */
size_t egress_msg_fds(enum egress_type type);
/* The head of a frame and the id; the text is to follow. */
#define EGRESS_HEAD (FRAME_HEAD + EGRESS_ID_MAX)
void egress_msg_head(uint8_t ret[EGRESS_HEAD], enum egress_type type, const char *id, size_t len);
