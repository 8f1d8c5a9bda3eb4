/* server.h - an HTTP/1.1 server on the loop: connections, requests, answers, streams, WebSocket.
 *
 * A connection handles one request at a time; what is pipelined waits. For each request the handler
 * is called once with an exchange, when its head is complete. It answers now or later, from any
 * callback. All memory a client can cause is bounded by the options. Every exchange ends with
 * exactly one call of on_done (if set), after which it must not be touched.
 *
 *   whole answer:     exchange_reply()
 *   streamed answer:  exchange_begin(), exchange_write()..., exchange_end()
 *   request body:     exchange_read_all() collects it, or exchange_read_body() streams it;
 *                     a body nobody asked for is read and dropped after the answer, up to a bound
 *   WebSocket:        exchange_accept_ws(), then ws_* only
 *   tunnel:           exchange_upgrade(), then bytes both ways, as streams of both kinds */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "http1.h"

struct jobs;
struct loop;
struct server;
struct exchange;
struct tally;
struct tls;

struct server_options {
	size_t head_max;	/* bytes of a request head; 431 beyond */
	size_t connections_max; /* beyond: accepted, answered 503, closed */
	/* Connections that have not shown a key (exchange_charge()), in all and for each address;
	 * 0: connections_max, and no bound. The rest is for those that have. */
	size_t unkeyed_max, unkeyed_per_address;
	/* Bytes of bodies that are being collected, on one account and on all; 0: no bound. Beyond:
	 * 429 and 503. */
	size_t bodies_one_max, bodies_all_max;
	struct tally *all;  /* the sum, which several servers may share; NULL: its own */
	struct jobs *jobs;  /* where long bodies take turns; borrowed, outlives it; NULL: its own */
	uint64_t head_ms;   /* to receive a whole head, from its first byte; 408 beyond */
	uint64_t idle_ms;   /* keep-alive without a request; clients are told a little less */
	uint64_t body_ms;   /* without any progress of a request body; 408 beyond. A body that is
			       collected has that much and a second for each 64 KiB in all */
	uint64_t write_ms;  /* without any progress of an answer; the connection is dropped */
	uint64_t answer_ms; /* for an answer that is whole to be read, and a second for each
			       64 KiB; the connection is dropped. 0: ten seconds */
	struct tls *tls;    /* NULL: plain; borrowed */
	void (*handle)(struct exchange *x, void *arg);
	/* Called when an exchange has been answered (status) or was dropped (status 0), before its
	 * on_done; also for requests that were refused before a handler saw them (their request is
	 * all zero if it was malformed). For logs and metrics. May be NULL. */
	void (*log)(const struct exchange *x, int status, uint64_t bytes_out, uint64_t ns,
		    void *arg);
	void *arg;
};

/* listen_fd is taken over: a bound, listening, non-blocking stream socket (TCP or Unix). */
struct server *server_new(struct loop *l, const struct server_options *o, struct err *e) MUST_USE;
int server_listen(struct server *s, int listen_fd, struct err *e) MUST_USE;
/* No more connections and requests; idle connections are closed, and streams of events and
 * WebSockets and tunnels, which would go on for ever. Other exchanges in progress go on. */
void server_drain(struct server *s);
/* Some time after server_drain(): what has not been answered yet is answered now, by its handler's
 * on_drain or else with 503. */
void server_hurry(struct server *s);
size_t server_connections(const struct server *s);
/* Of these: those that have not shown a key. */
size_t server_unkeyed(const struct server *s);
void server_free(struct server *s);

/* ---- the request */
const struct http1_request *exchange_request(const struct exchange *x);
/* "req_" and 16 hex digits; also sent as X-Request-Id. */
const char *exchange_id(const struct exchange *x);
/* "127.0.0.1:5123" or "unix". */
const char *exchange_peer(const struct exchange *x);
/* Does it come from this machine? */
bool exchange_is_local(const struct exchange *x);
/* 16 bytes that stand for the peer's address; IPv6: for the 64 bits in front. */
const uint8_t *exchange_address(const struct exchange *x);
void exchange_set_arg(struct exchange *x, void *arg);
void *exchange_arg(const struct exchange *x);
/* A second one, for who moves the bytes on the handler's behalf (src/proxy). */
void exchange_set_carrier(struct exchange *x, void *carrier);
void *exchange_carrier(const struct exchange *x);
/* Called once at the end of the exchange: answered completely, or the client has gone (a client
 * that closes its sending side before it has the answer counts as gone). Never from inside an
 * exchange_*() or ws_*() call. */
void exchange_on_done(struct exchange *x, void (*on_done)(struct exchange *x, bool answered));

/* What waits in memory for this request is on this account (which outlives it) rather than on its
 * address's, and its connection is none without a key; keyed: nor is it afterwards. Before the body
 * is read and the answer begins. */
void exchange_charge(struct exchange *x, struct tally *account, bool keyed);

/* Called by server_hurry() if there is no answer yet, for handlers that wait for something that
 * outlives the server: time to say how things stand. */
void exchange_on_drain(struct exchange *x, void (*on_drain)(struct exchange *x));

/* Collects the whole body, at most max bytes (else the server answers 413 itself), then calls got.
 * The bytes are valid until the exchange ends. Called at once if there is no body. */
void exchange_read_all(struct exchange *x, size_t max,
		       void (*got)(struct exchange *x, const uint8_t *body, size_t len));

/* For handlers that stream a body and keep it in memory all the same: it has the time of one that
 * exchange_read_all() collects. exchange_keep() counts n bytes more of it for the account; false:
 * there is no room. exchange_kept(): they are gone; the end of the exchange says it, too. */
void exchange_keeps_body(struct exchange *x, size_t max);
bool exchange_keep(struct exchange *x, size_t n) MUST_USE;
void exchange_kept(struct exchange *x);

/* Streams the body. on_data returns how many of the bytes it took: fewer means "not now", and it is
 * called again after exchange_resume_body(). on_end: ok is false if the body was malformed or the
 * client is gone. max as above. Handles "Expect: 100-continue". */
void exchange_read_body(struct exchange *x, uint64_t max,
			size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
			void (*on_end)(struct exchange *x, bool ok));
void exchange_resume_body(struct exchange *x);

/* ---- the answer */
/* An extra header for the answer; before it starts. Name and value must be clean (asserted). */
void exchange_header(struct exchange *x, const char *name, const char *value);
#define EXCHANGE_HEADERS_MAX ((size_t)64 * 1024)
/* The same for headers that come from elsewhere, in any number and case. Date and X-Request-Id
 * replace those the server would add. Returns -1, and adds nothing, if it is not clean, if it would
 * say where the answer ends (Content-Length, Transfer-Encoding, Connection: these are the server's)
 * or if all together are beyond EXCHANGE_HEADERS_MAX. */
int exchange_pass_header(struct exchange *x, struct http1_span name,
			 struct http1_span value) MUST_USE;
/* The bytes are copied. type NULL: no Content-Type. */
void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t len);

#define EXCHANGE_CHUNKED UINT64_MAX
/* length: exact, or EXCHANGE_CHUNKED. */
void exchange_begin(struct exchange *x, int status, const char *type, uint64_t length);
/* Takes up to len bytes and returns how many: when the connection's bounded buffer is full it takes
 * fewer, and on_writable is called when there is room. HEAD requests: taken and dropped. */
size_t exchange_write(struct exchange *x, const void *data, size_t len);
void exchange_on_writable(struct exchange *x, void (*on_writable)(struct exchange *x));
/* Room in the buffer right now. */
size_t exchange_room(const struct exchange *x);
/* Ends the answer. abort: ends the connection instead, so that the client sees it is not whole: by
 * FIN where chunks or a length show it, and by a reset where nothing else does. */
void exchange_end(struct exchange *x);
void exchange_abort(struct exchange *x);

/* Ends it on behalf of who may: with this status if no answer has begun, else by cutting it off (a
 * WebSocket is told so). An answer that is whole already goes its way. What the handler still says
 * is dropped; its on_done comes soon. */
void exchange_revoke(struct exchange *x, int status, const char *words);

/* ---- tunnels */
/* Answers 101 with the headers given before (Upgrade must be one; Connection is added); what
 * follows is another protocol's. Only for requests without a body. exchange_write() sends,
 * exchange_room() and on_writable as in any stream. on_data as with exchange_read_body(), also for
 * what came right behind the head. on_end: ok, if the peer has closed its sending side, which does
 * not end the tunnel; not ok, if it is gone. Only write_ms is a bound of time here. The tunnel ends
 * with exchange_end() (what waits is sent) or exchange_abort(). */
void exchange_upgrade(struct exchange *x,
		      size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
		      void (*on_end)(struct exchange *x, bool ok));
/* Closes our sending side when what waits has been sent; input goes on. No exchange_write() after
 * it. */
void exchange_shut(struct exchange *x);

/* ---- WebSocket */
struct ws_events {
	/* A whole message, text checked to be UTF-8. */
	void (*message)(struct exchange *x, bool text, const uint8_t *data, size_t len);
};
/* True if the request asks for a WebSocket, correctly. */
bool exchange_wants_ws(const struct exchange *x);
/* Answers 101. message_max bounds one message; beyond it the connection is closed with 1009. Pings
 * are answered, and sent every 30 s; a peer that answers none is dropped. */
void exchange_accept_ws(struct exchange *x, const struct ws_events *events, size_t message_max);
/* All or nothing: false if the bounded buffer has no room now (then on_writable comes). */
bool ws_send(struct exchange *x, bool text, const void *data, size_t len);
/* While paused no message is delivered (one may still come) and no more than a bounded piece is
 * read: for handlers that cannot take what comes. */
void ws_pause(struct exchange *x, bool pause);
/* Starts the closing handshake; on_done follows. */
void ws_close(struct exchange *x, uint16_t code, const char *reason);
