/* ws_walk.h - checks that a stream is WebSocket frames and nothing else. Pure but for the random
 * numbers it is given. Used by src/egress.
 *
 * For a gateway that passes on what a client and a server send after 101: every byte belongs to a
 * well-formed frame (known opcode, no reserved bits, control frames short and whole, the shortest
 * form of the length, fragments in order, nothing after Close), masked as its side must. Frames of
 * a client get a new masking key here, so that the client does not choose the bytes on the wire:
 * they cannot be read as a request by a server that only claimed to speak WebSocket. */
#pragma once

#include <sys/types.h>

#include "ws.h"

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

/* random: fills a buffer; needed for frames of a client only. */
void ws_walk_init(struct ws_walk *w, bool masked, void (*random)(void *ret, size_t n));
/* Checks bytes that were not checked yet, and masks those of a client's frames again, in place.
 * Returns how many of them may be sent on; the rest is the beginning of a head, to be given again
 * with what follows. -1: malformed, or a frame that may not come now. */
ssize_t ws_walk(struct ws_walk *w, uint8_t *bytes, size_t len) MUST_USE;
