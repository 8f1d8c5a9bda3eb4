/* get.h - one request of cordon-pull, on its own connection, GET but for one login: connects
 * (outbound.h), speaks TLS, sends the request, reads the head of the answer, and hands over the
 * body as it comes. Called by fetch.c, which knows about tokens, redirects, digests and further
 * attempts. This does not.
 *
 * The server is not trusted: the head is bounded, the body is handed over in pieces of at most
 * GET_PIECE bytes, and a silent or dripping server is given up.
 *
 * A get ends exactly once, by on_end from the loop, unless it is cancelled. on_head and on_data
 * must neither cancel nor free it. on_end may. */
#pragma once

#include "lib/http/chunk.h"
#include "lib/loop/completion.h"
#include "lib/net/fifo.h"
#include "lib/outbound/outbound.h"
#include "pull/address.h"

#define GET_PIECE ((size_t)64 * 1024)
#define GET_REQUEST_MAX ((size_t)48 * 1024)
#define GET_SLOW_BYTES 8192 /* fewer bytes of a body in one `patience_ms` are too slow */

struct tls;
struct tls_conn;

/* The resources that a process offers its requests. Borrowed. */
struct get_means {
	struct loop *loop;
	struct resolver *resolver;
	struct tls *tls;
	struct policy *public_only; /* public addresses */
	struct policy *any;	    /* private ones, too: for hosts that the operator named */
};

struct get {
	/* Set by the caller before get_start(). */
	/* The head has come. False: the body is not wanted, and the get ends without an error. */
	bool (*on_head)(struct get *g, const struct http1_response *r);
	/* Bytes of the body. Return how many were taken. Fewer than n: get_resume() will be
	 * called when more can be taken. */
	size_t (*on_data)(struct get *g, const uint8_t *data, size_t n);
	/* The end: NULL if head and body (as far as they were wanted) are complete. ERR_SYSTEM:
	 * another attempt may work. ERR_INVALID: not HTTP. ERR_DENIED: the address is refused, or
	 * the certificate. ERR_NOT_FOUND: no such host. */
	void (*on_end)(struct get *g, const struct err *e);
	void *arg;

	/* Private to get.c. */
	const struct get_means *means;
	struct address to;
	struct outbound_from from;
	struct outbound outbound;
	struct completion end;
	int fd; /* owned. -1: none */
	struct loop_fd watch;
	struct tls_conn *tls; /* owned */
	struct loop_timer patience;
	struct loop_task again, ending;
	struct err why; /* of the end. Code ERR_NONE: it worked */
	uint64_t patience_ms, window_bytes;
	unsigned state;
	struct fifo out, in;
	size_t scanned;
	char *head; /* owned: what `answer` points into */
	struct http1_response answer;
	struct chunk chunk;
	uint64_t left;
	bool paused; /* on_data took less than it was given */
};

struct get_header {
	const char *name, *value;
};

struct get_post {
	const char *body;
	const struct get_header *headers;
	size_t nheaders;
};

struct get_request {
	const struct address *to;
	bool private_ok;	     /* the operator named this host: its address may be private */
	const char *accept;	     /* value of Accept */
	const char *authorization;   /* NULL: none */
	const struct get_post *post; /* NULL: a GET */
	uint64_t range_from;	     /* 0: the whole */
	uint64_t patience_ms;
};

/* -1: the request cannot be written (ERR_INVALID), or no memory. Then on_end is not called. */
int get_start(struct get *g, const struct get_means *m, const struct get_request *r,
	      struct err *e) MUST_USE;
void get_resume(struct get *g);
/* May be called at any time but inside on_head and on_data. Also if it was never started (zeroed).
 */
void get_cancel(struct get *g);
