/* pass.h - bytes both ways between two sockets, unseen: splice(2) through pipes, or a small buffer
 * where that does not pay. Half-closes are passed on, back-pressure comes by itself. SIGPIPE must
 * be ignored: splice(2) has no other way to be told. */
#pragma once

#include "loop.h"

struct pass;

struct pass_options {
	int cell, server;  /* taken over (also on failure), non-blocking TCP sockets */
	const void *first; /* bytes for the server before anything else (copied); n may be 0 */
	size_t first_n;
	uint64_t idle_ms; /* nothing moves: it ends */
	/* Bytes moved since the last call; false: no more is allowed, and it is cut (over() comes).
	 * Must not free it. */
	bool (*moved)(void *arg, uint64_t out, uint64_t in);
	/* It is over (why: NULL, or what happened); both sockets are closed, or reset if there is a
	 * why. Not after pass_free(). */
	void (*over)(void *arg, const char *why);
	void *arg;
};

/* Nothing is called from inside. */
struct pass *pass_new(struct loop *l, const struct pass_options *o, struct err *e) MUST_USE;
/* Cuts it: both sides see a reset. In over() too, where it is needed to free it. */
void pass_free(struct pass *p);
