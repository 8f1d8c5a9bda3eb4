/* splice_relay.h - relays bytes both ways between two sockets without reading them: by splice(2)
 * through pipes, or a small buffer where this is cheaper. Used by flow_relay.c. Half-closes are
 * passed on. A slow reader holds its sender back. SIGPIPE must be ignored: splice(2) cannot
 * suppress it. */
#pragma once

#include "lib/loop/loop.h"

struct splice_relay;

struct splice_relay_options {
	int cell, server;  /* taken over (also on failure), non-blocking TCP sockets */
	const void *first; /* bytes sent to the server before all others (copied). n may be 0 */
	size_t first_n;
	uint64_t idle_ms; /* ends after so long without a byte */
	/* How many bytes may go this way now (out: to the server). Called before each move. 0, and
	 * why: no more. The relay is cut when one more byte arrives. Must not free the relay. */
	uint64_t (*bytes_left)(void *arg, bool out, const char **ret_why);
	/* n bytes were moved. Called right after each move. Must not free the relay. */
	void (*on_moved)(void *arg, bool out, uint64_t n);
	/* How many bytes it may move in this turn of the loop. NULL: no bound but its own. */
	uint64_t (*turn_left)(void *arg);
	/* The relay has ended (why: NULL, or what happened). Both sockets are closed, with a reset
	 * if there is a why. Not called after splice_relay_free(). */
	void (*on_end)(void *arg, const char *why);
	void *arg;
};

/* Call no callback itself: the loop does, later. */
struct splice_relay *splice_relay_new(struct loop *l, const struct splice_relay_options *o,
				      struct err *e) MUST_USE;
/* Cut it: both sides see a reset. Also frees it in on_end(), which must call it. */
void splice_relay_free(struct splice_relay *p);
