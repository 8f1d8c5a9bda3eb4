/* ws_walk.h - lets through WebSocket frames and nothing else. Pure but for the random numbers it is
 * given.
 *
 * For who passes on what a client and a server say after 101: every byte belongs to a frame that is
 * well-formed (known opcode, no reserved bits, control frames short and whole, the shortest form of
 * the length, fragments in order, nothing behind Close), masked as its side must. A client's frames
 * get a new masking key here, so that bytes on the wire are never what the client chose: they
 * cannot be read as a request by a server that only said that it speaks WebSocket. */
#pragma once

#include <sys/types.h>

#include "ws.h"

struct ws_walk {
	bool masked;   /* a client's */
	bool open;     /* a message in fragments is under way */
	bool closed;   /* Close was seen */
	uint64_t left; /* of this frame's payload */
	uint64_t frames;
	uint8_t change[4];		     /* by which its bytes are changed: old key and new */
	uint64_t offset;		     /* in its payload */
	void (*random)(void *ret, size_t n); /* for new keys */
};

/* random: fills with random bytes; needed for a client's frames only. */
void ws_walk_init(struct ws_walk *w, bool masked, void (*random)(void *ret, size_t n));
/* Looks at bytes that were not looked at yet, and changes those of masked frames in place. Returns
 * how many of them may go on; the others are the beginning of a head, to be given again with what
 * follows. -1: they begin with no frame, or with one that may not come now. */
ssize_t ws_walk(struct ws_walk *w, uint8_t *bytes, size_t len) MUST_USE;
