/* gateway_tap.h - what happens to the body of an answer on its way to the cell when it is a package
 * file: it is hashed, its last bytes are held back until the hash is right, and it is copied into
 * the package cache. Set by the package gate before the request is sent; called by
 * gateway_answer.c, gateway_body.c and gateway_end.c.
 *
 * A tap applies to an answer with status 200 that is not encoded. Of any other answer nothing is
 * stored. Where a digest is expected, one with a status below 400 and a body is refused; the rest
 * goes on to the cell as it is: the gate, which sees the head first, refuses what it does not want.
 * An answer with a wrong digest, or that is shorter or longer than its size says, is cut by a reset
 * before its last GATEWAY_TAP_HELD bytes, and is not stored; one that is not longer than that in
 * all is answered with 403 and the reason. Without an expected digest the file is stored and passed
 * on when its framing is complete.
 *
 * Nothing is kept of an answer in whose body, or in whose kept headers, the mask covers something.
 *
 * Storing never delays the answer for long: a cache that takes nothing for a while is given up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cache_link.h"

struct digest; /* digest.h */
struct gateway;
struct gateway_tap;
struct http1_response;

#define GATEWAY_TAP_HELD ((size_t)16 * 1024)
#define GATEWAY_TAP_DIGESTS_MAX 32

enum gateway_tap_result {
	TAP_NONE,     /* no body passed: not status 200, or nothing came */
	TAP_VERIFIED, /* whole, with one of the expected digests */
	TAP_WHOLE,    /* whole; no digest was expected */
	TAP_MISMATCH, /* a digest or the size was wrong: it was cut */
	TAP_CUT,      /* the connection to the server or to the cell ended before */
};

struct gateway_tap_end {
	enum gateway_tap_result result;
	uint64_t bytes;	    /* of the body, as they came from the server */
	uint8_t sha256[32]; /* of a whole body; else zeros */
	bool stored;	    /* handed to the cache completely */
	const char *reason; /* of TAP_MISMATCH, for the record; valid during the call */
};

struct gateway_tap_want {
	/* It must have one of them, if there are any; copied. Not DIGEST_H1, which is not a hash
	 * of the file. */
	const struct digest *expected;
	size_t nexpected;
	bool has_size;
	uint64_t size;
	bool store;
	struct cache_key key; /* of store; copied */
	/* Called exactly once for a tap, before the request is recorded, and not from inside
	 * gateway_tap_set(); must not end the gateway. meta of the view comes from the answer. */
	void (*on_end)(struct gateway *x, const struct gateway_tap_end *end, void *arg);
	void *arg;
	/* The object is in the cache, or is not going to be; may be NULL. Outlives the request: it
	 * belongs to the owner, who cancels it. */
	struct cache_call *stored;
};

/* -1: out of memory. */
int gateway_tap_set(struct gateway *x, const struct gateway_tap_want *want, struct err *e) MUST_USE;

/* ---- for gateway*.c */

/* The head of the final answer was read. False: the answer was refused. */
bool gateway_tap_head(struct gateway *x, const struct http1_response *a);
/* The head of the answer was queued for the cell, behind so many other bytes: it waits, if all of
 * the body will be held back. */
void gateway_tap_hold_head(struct gateway *x, size_t before);
/* True: the cell has got nothing of the answer, and will not; another one may be sent. */
bool gateway_tap_take_back(struct gateway *x);
/* Of a body that is bad: 403 if it is not what was expected, else 502. */
int gateway_tap_status(const struct gateway *x);
bool gateway_tap_is_on(const struct gateway *x);
/* How many bytes the tap takes now, at most `most`: 0 while the cache catches up. */
size_t gateway_tap_room(struct gateway *x, size_t most);
/* Takes n bytes, of which room was asked for; writes those that may go on to ret (room for
 * GATEWAY_TAP_HELD + n). Returns how many; -1: the body is wrong, x->in.bad says why. */
ssize_t gateway_tap_feed(struct gateway *x, const uint8_t *data, size_t n, uint8_t *ret);
/* The body is complete: returns how many bytes of ret (GATEWAY_TAP_HELD) go on, or -1. */
ssize_t gateway_tap_finish(struct gateway *x, uint8_t *ret);
/* After that, when all bytes have passed the mask: what it covered must not be kept. */
void gateway_tap_passed(struct gateway *x);
size_t gateway_tap_memory(const struct gateway *x);
/* The request ends; calls on_end if nothing has yet. */
void gateway_tap_end(struct gateway *x);
