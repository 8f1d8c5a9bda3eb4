/* conn.h - inside the server: what a connection and its exchange are made of. Only for src/net.
 *
 * conn.c moves bytes and waits; conn_step.c decides what happens next; body.c decodes request
 * bodies; exchange.c is what handlers see; response.c composes heads; ws_conn.c speaks WebSocket
 * once an exchange is one, tunnel.c moves bytes once it is a tunnel; charge.c counts what waits in
 * memory, room.c ends connections when others need their room.
 *
 * The rule that keeps it free of use-after-free: exchange_*() and ws_*() change state, may write to
 * the socket, and call no handler's callback (but for the bodiless exchange_read_all()); a
 * connection is dropped and an exchange ended only in conn.c and conn_step.c, out of the loop's
 * callbacks. */
#pragma once

#include "chunk.h"
#include "fifo.h"
#include "jobs.h"
#include "loop.h"
#include "peers.h"
#include "server.h"

#include <sys/uio.h>

#define CONN_PEER_MAX 56
#define CONN_OUT_MAX ((size_t)256 * 1024)    /* bytes of a streamed answer that may wait */
#define CONN_DISCARD_MAX ((size_t)64 * 1024) /* of a body nobody asked for */

enum conn_state {
	CONN_HEAD,     /* waiting for a request, or inside its head */
	CONN_EXCHANGE, /* x is being handled or answered; or is a WebSocket or a tunnel */
	CONN_DISCARD,  /* answered; what is left of the body is dropped before the next request */
	CONN_LINGER,   /* answered, our side is closed: input is dropped, so that no reset overtakes
			  it */
	CONN_DEAD      /* inside drop(): on its way out */
};

/* The request body's framing; outlives the exchange while the rest is discarded. */
struct body {
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
	struct peer *from;     /* its address, which has the connections counted */
	struct tally *account; /* what its bytes in memory count for */
	bool keyed;	       /* counted as one that has shown a key */
	bool stays_keyed;      /* also between requests */
	struct fifo in, out;
	size_t scanned; /* of the head in `in`, see http1_head_end() */
	struct body body;
	size_t discarded;
	uint64_t read_ns,
		write_ns; /* last progress; in CONN_HEAD read_ns is where the clock began */
	bool busy;	  /* inside advance() */
	bool doomed;	  /* to be dropped by advance() */
	bool cut;	  /* doomed, but by FIN: its answer's framing shows that it is not whole */
	bool ended;	  /* the peer sent all it will, and we have read it */
	bool hung_up;	  /* the peer closed its side; there may be bytes to read before */
	bool ignore_in;	  /* epoll is not to report input */
	bool unwatched;	  /* both sides are closed, epoll would report nothing else: see ready() */
	bool served;	  /* it had a request already, so its client knows that it may end */
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
	int revoked; /* the status to end it with; 0: it goes on */
	const char *why_revoked;
	uint64_t began_ns, bytes_out;

	/* the request body */
	size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len);
	void (*on_end)(struct exchange *x, bool ok);
	void (*got)(struct exchange *x, const uint8_t *body, size_t len);
	struct fifo collected;
	size_t charged;	     /* bytes of it that the account has */
	uint64_t body_by_ns; /* when a body that is collected must be here; 0: no such time */
	struct job handover; /* queued: the body is here, its handler has not been told */
	bool paused;
	bool too_long; /* the announced length is beyond what the reader wants */

	/* the answer */
	enum answer answer;
	int status;
	uint64_t ended_ns; /* when the answer was whole */
	size_t owed;	   /* bytes of it that waited then */
	bool close;	   /* the connection ends with it */
	bool headless;	   /* no body is sent: HEAD, 204, 304 */
	bool chunked;
	bool endless;	/* a stream of events: its client comes again where it was */
	bool starved;	/* on_writable is owed */
	bool truncated; /* the peer broke the rules: input may be unread */
	bool refused;	/* answered by the server; what the handler still says is dropped */
	uint64_t left;	/* of a body of known length */
	void (*on_writable)(struct exchange *x);
	struct fifo headers; /* extra ones, as they will be sent */
	bool dated, named;   /* Date and X-Request-Id are among them */
	bool retried;	     /* and Retry-After, by exchange_header() */

	struct ws_conn *ws;

	bool tunnel;
	bool shut;	/* our side is to be closed when all is sent */
	bool shut_done; /* and is */
	char head[];	/* what request points into */
};

/* What server.c keeps and the rest reads. */
struct server {
	struct loop *loop;
	struct server_options options;
	struct listen *listeners;
	size_t nlisteners;
	struct conn *first;
	size_t nconns, unkeyed;
	struct peers peers;
	struct tally *all, own;	     /* all: own, or the options' */
	struct jobs *jobs, own_jobs; /* jobs: own, or the options' */
	struct job_queue work;	     /* of accounts that have no queue */
	bool draining;
	uint64_t drain_ns; /* since when */
	int fd_bound;	   /* connections get descriptors below it */
	uint64_t ids;	   /* the next request id; starts at random */
	uint64_t date_s;   /* the second that date is of */
	char date[32];
};

/* Takes over fd and one connection of the peer's, or closes it and leaves the peer. */
void conn_open(struct server *s, int fd, struct peer *from, const char *peer);
/* Ends it now: the exchange gets its on_done. Not from inside a handler's callback. */
void conn_drop(struct conn *c);
/* local: a Unix socket, whose client may have sent descriptors along (untrusted_fd.h). */
void conn_close_fd(int fd, bool local);
/* Something changed: look at it soon (now, if advance() is running). */
void conn_wake(struct conn *c);
void conn_doom(struct conn *c);
/* Calls what, which may call a handler, and goes on with the connection, which may end it. Out of
 * the loop's callbacks only. */
void conn_do(struct conn *c, void (*what)(struct conn *c));
/* Bytes for the peer; now: straight to the socket if nothing waits before them; else they are
 * queued and go at the end of the turn. Without memory the connection is doomed. */
void conn_put(struct conn *c, const struct iovec *parts, int n, bool now);
void conn_put_bytes(struct conn *c, const void *data, size_t len);
/* Writes what waits, once: what the socket does not take now waits for EPOLLOUT. */
void conn_flush(struct conn *c);
bool conn_is_idle(const struct conn *c);

/* Is there room for one more from this address, perhaps because another one has been ended? */
bool room_make(struct server *s, const struct peer *newcomer);

/* Bytes of an answer wait, or do so no longer. */
void charge_answer(struct conn *c, size_t n);
void charge_answer_gone(struct conn *c, size_t n);
/* After charge_answer(): gives up an answer if too much waits. */
void charge_relieve(struct conn *c);
/* 0: that much more of a body may be kept; else the status to refuse it with. */
int charge_body(struct exchange *x, size_t n);
void charge_open(struct conn *c);
void charge_end_exchange(struct exchange *x);
void charge_close(struct conn *c);

/* Does the next thing. False: there is nothing to do but wait. */
bool steps_take(struct conn *c);
/* Answers a request whose head will never be whole. */
void steps_refuse_head(struct conn *c, int status, const char *words);
/* Ends the exchange, if there is one, unanswered. */
void steps_drop_exchange(struct conn *c);
/* The same, and closes the sending side: the connection lingers until its peer has read that. */
void steps_cut_exchange(struct conn *c);

/* Sets up the decoder for a request. */
void body_start(struct conn *c, const struct http1_request *r);
/* Delivers, or drops, what is there. True if something was done and the caller should look again.
 */
bool body_deliver(struct conn *c);
bool body_discard(struct conn *c);
/* Ends the exchange's reading with a fault: tells the handler, and answers if it does not. */
void body_fault(struct conn *c, int status, const char *words);
/* Is a handler waiting for bytes that have not come? */
bool body_is_awaited(const struct conn *c);
/* Has the whole body come, and is its handler to be told in a turn of its account? */
bool body_waits_for_turn(const struct exchange *x);
/* It is not told any more. Safe at any time. */
void body_forget_turn(struct exchange *x);

/* The head, with the extra headers, and the body (len bytes, may be 0) in one write. length: the
 * value of Content-Length, or EXCHANGE_CHUNKED. */
void answer_send(struct exchange *x, const char *type, uint64_t length, const void *body,
		 size_t len);
/* The answer is whole: what waits of it has its time from now on. */
void answer_ended(struct exchange *x);
/* Answers with an error of our own and closes the connection afterwards. */
void answer_refuse(struct exchange *x, int status, const char *words);

/* Delivers what has come. True if something was done and the caller should look again. */
bool tunnel_step(struct conn *c);
bool tunnel_wants_input(const struct conn *c);
/* Closes our side, if that is due. */
void tunnel_shut(struct conn *c);
/* Both sides are closed: may there be something of the peer's that was not delivered? */
bool tunnel_has_tail(const struct conn *c);

/* Reads frames. True if something was done and the caller should look again. */
bool ws_conn_step(struct conn *c);
bool ws_conn_wants_input(const struct conn *c);
/* When ws_conn_timeout() is to be called. */
uint64_t ws_conn_deadline(const struct conn *c);
void ws_conn_timeout(struct conn *c);
/* Says goodbye, and hears nothing more. */
void ws_conn_revoke(struct conn *c);
void ws_conn_free(struct ws_conn *w);
