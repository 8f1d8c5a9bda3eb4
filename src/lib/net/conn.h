/* conn.h - the structures of a connection and its exchange. Only for src/lib/net.
 *
 * conn.c moves bytes, waits, and decides what happens next. request_body.c decodes request bodies.
 * exchange.c is the interface of handlers, with heads of answers and tunnels. ws_conn.c is
 * WebSocket. conn_account.c counts bytes in memory and connections of addresses, and closes
 * connections when others need their place. server.c has the listeners.
 *
 * The rule that prevents use after free: exchange_*() and ws_*() change state, may write to the
 * socket, and call no callback of a handler (but for exchange_read_all() without a body). Only
 * conn.c drops a connection or ends an exchange, in callbacks of the loop. */
#pragma once

#include <sys/uio.h>

#include "lib/http/chunk.h"
#include "lib/loop/jobs.h"
#include "lib/loop/loop.h"
#include "lib/net/conn_account.h"
#include "lib/net/fifo.h"
#include "lib/net/server.h"

#define CONN_PEER_MAX 56
#define CONN_OUT_MAX ((size_t)256 * 1024)    /* queued bytes of a streamed answer */
#define CONN_DISCARD_MAX ((size_t)64 * 1024) /* of a body that the handler did not read */

enum conn_state {
	CONN_HEAD,     /* waiting for a request, or inside its head */
	CONN_EXCHANGE, /* x is being handled or answered, or is a WebSocket or a tunnel */
	CONN_DISCARD,  /* answered. The rest of the body is dropped before the next request */
	/* answered, and the sending side closed: input is dropped, so that no reset overtakes the
	 * answer */
	CONN_LINGER,
	CONN_DEAD /* inside conn_drop() */
};

/* The framing of the request's body. Outlives the exchange while the rest is discarded. */
struct request_body {
	enum http1_framing framing;
	bool done;
	uint64_t left;	    /* HTTP1_LENGTH */
	struct chunk chunk; /* HTTP1_CHUNKED */
};

struct conn {
	struct server *server;
	struct conn *prev, *next;
	struct loop *loop;
	struct loop_fd watch;
	struct loop_timer timer;
	struct loop_task task;
	struct tls_conn *tls; /* NULL: plain */
	int fd;
	enum conn_state state;
	struct exchange *x;
	struct conn_peer *from;	      /* its address, for which connections are counted */
	struct byte_account *account; /* for which its bytes in memory are counted */
	bool keyed;		      /* counted as a connection with a key */
	bool stays_keyed;	      /* also between requests */
	struct fifo in, out;
	size_t scanned; /* bytes of the head searched in `in`, see http1_head_end() */
	struct request_body body;
	size_t discarded;
	uint64_t drop_ns; /* when CONN_DISCARD or CONN_LINGER began */
	uint64_t read_ns,
		write_ns;  /* last progress. In CONN_HEAD, read_ns is when the head began */
	bool busy;	   /* inside advance() */
	bool drop_pending; /* to be dropped by advance() */
	/* doomed, but closed by FIN: the framing of its answer shows that it is incomplete */
	bool cut;
	bool ended;	/* the peer has ended its side, and all was read */
	bool hung_up;	/* the peer has closed its side. There may be bytes left to read */
	bool ignore_in; /* epoll does not report input */
	/* both sides are closed, and epoll would report nothing else: see on_ready() */
	bool unwatched;
	bool looked; /* of TLS: its first byte was looked at, see conn_is_plain() */
	/* it had a request already, so its client expects that it may be closed */
	bool served;
	char peer[CONN_PEER_MAX];
};

enum answer { ANSWER_NONE, ANSWER_BEGUN, ANSWER_ENDED };

struct exchange {
	struct conn *conn;
	struct http1_request request; /* zero if it was malformed */
	char id[24];
	void *arg, *carrier;
	void (*on_done)(struct exchange *x, bool answered);
	void (*on_drain)(struct exchange *x);
	int revoked; /* the status to end it with. 0: not revoked */
	const char *why_revoked;
	uint64_t began_ns, bytes_out;

	/* The body of the request. */
	size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len);
	void (*on_end)(struct exchange *x, bool ok);
	void (*on_body)(struct exchange *x, const uint8_t *body, size_t len);
	struct fifo collected;
	size_t charged;	     /* bytes of it counted for the account */
	uint64_t body_by_ns; /* when a collected body must be complete. 0: no deadline */
	struct job handover; /* queued: the body is complete, and on_end was not called yet */
	bool paused;
	bool too_long; /* the announced length exceeds the reader's bound */

	/* The answer. */
	enum answer answer;
	int status;
	uint64_t ended_ns; /* when the answer was complete */
	size_t owed;	   /* bytes of it queued then */
	bool close;	   /* the connection is closed after it */
	bool bodiless;	   /* no body is sent: HEAD, 204, 304 */
	bool chunked;
	bool endless;	/* an event stream: its client reconnects where it was */
	bool starved;	/* on_writable is to be called */
	bool truncated; /* the peer broke the protocol: input may be unread */
	bool refused;	/* answered by the server. Later output of the handler is dropped */
	uint64_t left;	/* bytes left of a body of known length */
	void (*on_writable)(struct exchange *x);
	struct fifo headers; /* extra headers, as they will be sent */
	bool dated, named;   /* Date and X-Request-Id are among them */
	bool retried;	     /* and Retry-After, by exchange_header() */

	struct ws_conn *ws;

	bool tunnel;
	bool shut;	/* the sending side is to be closed when all is sent */
	bool shut_done; /* and is closed */
	char head[];	/* what request points into */
};

/* The state of a server, set by server.c and read by the others. */
struct server {
	struct loop *loop;
	struct server_options options;
	struct listen *listeners;
	size_t nlisteners;
	struct conn *first;
	size_t nconns, unkeyed;
	struct peers peers;
	struct byte_account *all, own; /* all: its own, or that of the options */
	struct jobs *jobs, own_jobs;   /* jobs: its own, or those of the options */
	struct job_queue work;	       /* for accounts without a queue */
	bool draining;
	uint64_t drain_ns; /* since then */
	int fd_bound;	   /* connections get descriptors below this number */
	uint64_t ids;	   /* the next request id. Starts at random */
	uint64_t date_s;   /* the second for which date was written */
	char date[32];
};

/* Take over fd and one count of the peer. On failure closes fd and gives the count back. */
void conn_open(struct server *s, int fd, struct conn_peer *from, const char *peer);
/* In exchange.c: true if a handler called that function out of order, which must then do nothing.
 */
bool exchange_misused(struct exchange *x, bool wrong, const char *function) MUST_USE;

/* End it now: the on_done of its exchange is called. Not from inside a handler's callback. */
void conn_drop(struct conn *c);
/* local: a Unix socket, whose client may have sent descriptors (untrusted_fd.h). */
void conn_close_fd(int fd, bool local);
/* Something changed: advance() is called soon (or continues, if it is running). */
void conn_wake(struct conn *c);
void conn_drop_later(struct conn *c);
/* Call what, which may call a handler, and then advance(), which may end the connection. Only from
 * callbacks of the loop. */
void conn_do(struct conn *c, void (*what)(struct conn *c));
/* Send bytes. now: straight to the socket if nothing is queued before them. Else they are queued,
 * and sent at the end of the turn. Without memory the connection is doomed. */
void conn_put(struct conn *c, const struct iovec *parts, int n, bool now);
void conn_put_bytes(struct conn *c, const void *data, size_t len);
/* Write queued output once: the rest waits for EPOLLOUT. */
void conn_flush(struct conn *c);

/* Is there a place for one more connection of this address, if need be by closing another? */
bool conn_evict_for(struct server *s, const struct conn_peer *newcomer);

/* Bytes of an answer are queued, or are not any more. */
void conn_account_answer_queued(struct conn *c, size_t n);
void conn_account_answer_sent(struct conn *c, size_t n);
/* After conn_account_answer_queued(): gives up an answer if too many bytes are queued. */
void conn_account_relieve(struct conn *c);
/* 0: n more bytes of a body may be kept. Else the status to refuse it with. */
int conn_account_body(struct exchange *x, size_t n);
void conn_account_open(struct conn *c);
void conn_account_end_exchange(struct exchange *x);
/* The connection is its address's again, not a tenant's. */
void conn_account_reset(struct conn *c);
void conn_account_close(struct conn *c);

/* Set up the decoder for the body of a request. */
void request_body_start(struct conn *c, const struct http1_request *r);
/* Deliver, or drop, the bytes already there. True if the caller should call again. */
bool request_body_deliver(struct conn *c);
bool request_body_discard(struct conn *c);
/* End the reading of the body with a fault: call on_end, and answer if the handler does not. */
void request_body_fault(struct conn *c, int status, const char *words);
/* Does a handler wait for further bytes? */
bool request_body_is_awaited(const struct conn *c);
/* Is the body complete, and will on_end be called in a turn of its account? */
bool request_body_waits_for_turn(const struct exchange *x);
/* on_end is not called any more. May be called at any time. */
void request_body_forget_turn(struct exchange *x);

/* Send the head, with the extra headers, and the body (len bytes, may be 0) in one write. length:
 * the value of Content-Length, or EXCHANGE_CHUNKED. */
void response_send(struct exchange *x, const char *type, uint64_t length, const void *body,
		   size_t len);
/* The answer is complete: the deadline for its queued bytes runs from now. */
void response_ended(struct exchange *x);
/* Answer with an error of the server's own, and close the connection afterwards. */
void response_refuse(struct exchange *x, int status, const char *words);

/* Deliver the bytes that came. True if the caller should call again. */
bool tunnel_step(struct conn *c);
bool tunnel_wants_input(const struct conn *c);
/* Close the sending side, if due. */
void tunnel_shut(struct conn *c);
/* May a tunnel whose sides are both closed still have undelivered input? */
bool tunnel_has_tail(const struct conn *c);

/* Read frames. True if the caller should call again. */
bool ws_conn_step(struct conn *c);
bool ws_conn_wants_input(const struct conn *c);
/* When ws_conn_timeout() is to be called. */
uint64_t ws_conn_deadline(const struct conn *c);
void ws_conn_timeout(struct conn *c);
/* Send a close frame, and ignores further input. */
void ws_conn_revoke(struct conn *c);
void ws_conn_free(struct ws_conn *w);
