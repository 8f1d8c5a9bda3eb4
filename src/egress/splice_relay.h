/* splice_relay.h - bytes both ways between two sockets, unseen: splice(2) through pipes, or a small
 * buffer where that does not pay. Half-closes are passed on, back-pressure comes by itself. SIGPIPE
 * must be ignored: splice(2) has no other way to be told. */
#pragma once

#include "loop.h"

struct splice_relay;

struct splice_relay_options {
	int cell, server;  /* taken over (also on failure), non-blocking TCP sockets */
	const void *first; /* bytes for the server before anything else (copied); n may be 0 */
	size_t first_n;
	uint64_t idle_ms; /* nothing moves: it ends */
	/* How many bytes may go this way now (out: to the server), asked before each move. 0, and
	 * why: no more; it is cut as soon as there is one more byte. Must not free it. */
	uint64_t (*left)(void *arg, bool out, const char **ret_why);
	/* So many went, told right after each move. Must not free it. */
	void (*moved)(void *arg, bool out, uint64_t n);
	/* How many bytes it may move in this turn of the loop; NULL: as many as are good for it. */
	uint64_t (*turn)(void *arg);
	/* It is over (why: NULL, or what happened); both sockets are closed, or reset if there is a
	 * why. Not after splice_relay_free(). */
	void (*over)(void *arg, const char *why);
	void *arg;
};

/* Nothing is called from inside. */
struct splice_relay *splice_relay_new(struct loop *l, const struct splice_relay_options *o,
				      struct err *e) MUST_USE;
/* Cuts it: both sides see a reset. In over() too, where it is needed to free it. */
void splice_relay_free(struct splice_relay *p);
