/* gateway_tap.h - what happens to the body of an answer on its way to the cell when it is a package
 * file: it is hashed, its last bytes are held back until the hash is right, and it is copied into
 * the package cache. Set by the package gate before the request is sent. Called by
 * gateway_answer.c, gateway_body.c and gateway_end.c.
 *
 * A tap applies to an unencoded answer with status 200. Of any other answer nothing is stored.
 * Where a digest is expected, one with a status below 400 and a body is refused. The rest continues
 * to the cell as it is: the gate, which sees the head first, refuses unwanted ones. An answer with
 * a wrong digest, or shorter or longer than its size says, is cut by a reset before its last
 * GATEWAY_TAP_HELD bytes, and is not stored. An answer no longer than that in all is answered with
 * 403 and the reason. Without an expected digest the file is stored and passed on when its framing
 * is complete.
 *
 * Nothing is kept of an answer in whose body, or in whose kept headers, the mask covers something.
 *
 * Storing never delays the answer for long: a cache that takes nothing for a while is given up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "egress/packages/cache_link.h"

struct digest; /* digest.h */
struct gateway;
struct gateway_tap;
struct http1_response;

#define GATEWAY_TAP_HELD ((size_t)16 * 1024)
#define GATEWAY_TAP_DIGESTS_MAX 1024 /* as many files as a version has in a lockfile */

enum gateway_tap_result {
	TAP_NONE,     /* no body passed: not status 200, or nothing came */
	TAP_VERIFIED, /* whole, with one of the expected digests */
	TAP_WHOLE,    /* whole. No digest was expected */
	TAP_MISMATCH, /* a digest or the size was wrong: it was cut */
	TAP_CUT,      /* the connection to the server or to the cell ended before */
};

struct gateway_tap_end {
	enum gateway_tap_result result;
	uint64_t bytes;	    /* of the body, as they came from the server */
	uint8_t sha256[32]; /* of a whole body. Else zeros */
	bool stored;	    /* handed to the cache completely */
	const char *reason; /* of TAP_MISMATCH, for the record. Valid during the call */
};

struct gateway_tap_want {
	/* It must have one of them, if there are any. Copied. Not DIGEST_H1: it does not hash the
	 * file's bytes. */
	const struct digest *expected;
	size_t nexpected;
	bool has_size;
	uint64_t size;
	bool store;
	struct cache_key key; /* of store. Copied */
	/* Called exactly once for a tap, before the request is recorded, and not from inside
	 * gateway_tap_set(). Must not end the gateway. meta of the view comes from the answer. */
	void (*on_end)(struct gateway *x, const struct gateway_tap_end *end, void *arg);
	void *arg;
	/* The object is in the cache, or is not going to be. May be NULL. Outlives the request: it
	 * belongs to the owner, who cancels it. */
	struct cache_call *stored;
};

/* -1: out of memory. */
int gateway_tap_set(struct gateway *x, const struct gateway_tap_want *want, struct err *e) MUST_USE;
/* The answer, whose head has not come, is not stored. No effect without a tap. */
void gateway_tap_keep_nothing(struct gateway *x);

/* ---- for gateway*.c */

/* The head of the final answer was read. False: the answer was refused. */
bool gateway_tap_head(struct gateway *x, const struct http1_response *a);
/* The head of the answer was queued for the cell, behind so many other bytes: it waits, if all of
 * the body will be held back. */
void gateway_tap_hold_head(struct gateway *x, size_t before);
/* True: the cell has got nothing of the answer, and will not. Another one may be sent. */
bool gateway_tap_take_back(struct gateway *x);
/* The status for a bad body: 403 if it is not the expected one, else 502. */
int gateway_tap_status(const struct gateway *x);
bool gateway_tap_is_on(const struct gateway *x);
/* How many bytes the tap takes now, at most `most`: 0 while the cache catches up. */
size_t gateway_tap_room(struct gateway *x, size_t most);
/* Take n bytes, of which room was asked for. Write those that may pass to ret (room for
 * GATEWAY_TAP_HELD + n). Return how many. -1: the body is wrong, x->in.bad says why. */
ssize_t gateway_tap_feed(struct gateway *x, const uint8_t *data, size_t n, uint8_t *ret);
/* The body is complete: return how many bytes of ret (GATEWAY_TAP_HELD) pass, or -1. */
ssize_t gateway_tap_finish(struct gateway *x, uint8_t *ret);
/* After that, when all bytes have passed the mask: an answer with covered bytes must not be
 * kept. */
void gateway_tap_passed(struct gateway *x);
size_t gateway_tap_memory(const struct gateway *x);
/* The request ends. Call on_end if nothing has yet. */
void gateway_tap_end(struct gateway *x);
