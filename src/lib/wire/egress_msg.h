/* egress_msg.h - channel C, between cordond (or cordon run) and cordon-egress: the sessions that
 * egress serves, their policies and secrets, and records of their requests.
 *
 * Frames of frame.h over a Unix stream socket. Both sides check received frames: egress reads bytes
 * of cells and servers, and may be taken over. Every body begins with a session's id. A text
 * follows, JSON, not NUL-terminated. Descriptors are sent with the first byte of a frame.
 *
 * Egress outlives cordond: when the channel ends it keeps its sessions for EGRESS_ORPHAN_MS, and
 * records are queued. The supervisor sends egress a new channel. Over it the next cordond attaches
 * each live session again (its connections continue). SYNCED ends the list, and sessions outside it
 * are removed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/session_id.h"
#include "lib/wire/frame.h"

#define EGRESS_ID_MAX SESSION_ID_MAX  /* with its NUL */
#define EGRESS_TEXT_MAX (4U << 20)    /* to egress: policy and secrets */
#define EGRESS_RECORD_MAX (32U << 10) /* from egress, but prompts: EGRESS_PROMPT_MAX */
#define EGRESS_PROMPT_MAX (1U << 20)
#define EGRESS_ORPHAN_MS 30000

enum egress_type {
	/* to egress */
	EGRESS_ATTACH = 1,    /* two descriptors: TCP listener, UDP socket. Text: configuration */
	EGRESS_CHANGE,	      /* text: configuration. Connections it does not allow are closed */
	EGRESS_DETACH,	      /* no text. Closes all of the session and forgets it */
	EGRESS_SYNCED,	      /* id "", no text */
	EGRESS_PING,	      /* id "", no text. Answered by PONG */
	EGRESS_ATTACH_OWNERS, /* ATTACH with a third descriptor: for questions, owner_msg.h */
	EGRESS_CACHE,	/* id "", no text. A descriptor: the link to cordon-cache, cache_msg.h */
	EGRESS_SECRETS, /* text: "secrets" and "mask" of a configuration. The rest stays as it is */
	EGRESS_REQUESTS_END,
	/* from egress */
	EGRESS_TAKEN = 64, /* answer to ATTACH, CHANGE and SECRETS: text "" if it is applied, else
			      the error: then the session is detached (fail closed) */
	EGRESS_RECORD,	   /* text: one event, see doc/network.md */
	EGRESS_COUNTS, /* text: see below. Every 200 ms while they change, before unclaimed bytes
			* move, and before the session goes */
	EGRESS_PONG,   /* id "", no text: answer to PING */
	EGRESS_TURNS,  /* id "", text: {"count","sum_ns","max_ns","slowest_ns","slowest",
			  "buckets":[..]}, see turns.h. Every 5 s */
	EGRESS_EVENTS_END,
};

/* COUNTS, as JSON: totals of the session, beginning with "used" of its configuration:
 *	{"bytes_in", "bytes_out", "requests", "connections",
 *	 "claimed_in", "claimed_out",      bytes that count against its limits: those sent, and
 *	                                   those that may be sent before the next message
 *	 "rules": [{"rule": NAME, "claimed_in", "claimed_out"}]}       of rules with limits of
 *	                                   bytes, only changed ones
 *
 * The configuration of a session, as JSON:
 *	{"tenant": ID,                     its tenant, which never changes
 *	 "used": {"bytes_in", "bytes_out", "requests", "claimed_in", "claimed_out", "rules": [..]},
 *	                                   as COUNTS: the largest of each sent before
 *	 "policy": {...},                  merged, see policy.h; or
 *	 "layers": ["..", "..", ".."],     node's, tenant's, session's document as text, "": none
 *	 "secrets": [{"name", "value", "placeholder", "hosts": [..], "methods": [..], "paths": [..],
 *	              "in": ["header", "header:NAME", "basic", "body:FIELD"], "expires_ms"}],
 *	 "mask": [{"value", "name", "hosts": [..]}, ...]}
 *	                                   further values, masked in records, and in answers of
 *	                                   servers that may have the secret of that name; a string
 *	                                   in place of an object is masked in records only
 */

/* A session's use of its package limits is among the rules, under this name: claimed_in are bytes
 * of package files, claimed_out names that do not exist. */
#define EGRESS_PACKAGES_RULE "(packages)"
/* Rules of a session whose counts are remembered: twice as many as a policy may have. */
#define EGRESS_RULES_KEPT_MAX 8192U

struct egress_msg {
	enum egress_type type;
	char id[EGRESS_ID_MAX];
	const char *text; /* borrowed from the frame. Not NUL-terminated */
	size_t len;
};

/* Read one frame of either direction, strictly: type, id ([a-z0-9_], or "" where said), text
 * within its bound and without NUL. */
int egress_msg_read(const struct frame *f, struct egress_msg *ret, struct err *e) MUST_USE;
/* How many descriptors must come with it. */
#define EGRESS_FDS_MAX 3
size_t egress_msg_fds(enum egress_type type);
/* The head of a frame and the id. The text is to follow. */
#define EGRESS_HEAD (FRAME_HEAD + EGRESS_ID_MAX)
void egress_msg_head(uint8_t ret[EGRESS_HEAD], enum egress_type type, const char *id, size_t len);
