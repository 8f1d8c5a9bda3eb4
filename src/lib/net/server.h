/* server.h - an HTTP/1.1 server on the loop: connections, requests, answers, streams, WebSocket.
 *
 * A connection handles one request at a time. Pipelined ones wait. For each request the handler is
 * called once with an exchange, when its head is complete. It answers now or later, from any
 * callback. All memory that a client can cause is bounded by the options. Every exchange ends with
 * exactly one call of on_done (if set), after which it must not be used.
 *
 *	whole answer:     exchange_reply()
 *	streamed answer:  exchange_begin(), exchange_write()..., exchange_end()
 *	request body:     exchange_read_all() collects it, or exchange_read_body() streams it;
 *	                  an unread body is dropped after the answer, up to a bound
 *	WebSocket:        exchange_accept_ws(), then ws_* only
 *	tunnel:           exchange_upgrade(), then bytes both ways, as streams of both kinds */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/http/http1.h"

struct jobs;
struct loop;
struct server;
struct exchange;
struct byte_account;
struct tls;

struct server_options {
	size_t head_max;	/* bytes of a request head. 431 beyond */
	size_t connections_max; /* over it: accepted, answered 503, closed */
	/* Connections without a shown key (exchange_set_account()), in all and for each address. 0:
	 * connections_max, and no bound. The other places are for those with a key. */
	size_t unkeyed_max, unkeyed_per_address;
	/* Bytes of collected bodies, for one account and for all. 0: no bound. Over it: 429 and
	 * 503. */
	size_t bodies_one_max, bodies_all_max;
	struct byte_account *all; /* the sum, which several servers may share. NULL: its own */
	struct jobs *jobs; /* for the turns of long bodies. Borrowed, outlives it. NULL: its own */
	uint64_t head_ms;  /* to receive a complete head, from its first byte. Then 408 */
	uint64_t idle_ms;  /* keep-alive without a request. Keep-Alive announces a little less */
	/* without progress of a request body. Then 408. A collected body has that and a second for
	 * each 64 KiB in all */
	uint64_t body_ms;
	uint64_t write_ms; /* without progress of an answer. Then the connection is dropped */
	/* for a complete answer to be read, and a second for each 64 KiB. Then the connection is
	 * dropped. 0: ten seconds */
	uint64_t answer_ms;
	struct tls *tls; /* NULL: plain. Borrowed */
	void (*on_request)(struct exchange *x, void *arg);
	/* Called when an exchange was answered (status) or dropped (status 0), before its on_done.
	 * Also for requests refused before a handler saw them (their request is all zero if it was
	 * malformed). For logs and metrics. May be NULL. */
	void (*on_answered)(const struct exchange *x, int status, uint64_t bytes_out, uint64_t ns,
			    void *arg);
	void *arg;
};

/* listen_fd is taken over: a bound, listening, non-blocking stream socket (TCP or Unix). */
struct server *server_new(struct loop *l, const struct server_options *o, struct err *e) MUST_USE;
int server_listen(struct server *s, int listen_fd, struct err *e) MUST_USE;
/* Accept no more connections and requests. Close idle connections, and event streams, WebSockets
 * and tunnels, which would continue forever. Other exchanges continue. */
void server_drain(struct server *s);
/* Called some time after server_drain(): requests not answered yet are answered now, by the
 * on_drain of their handler or with 503. */
void server_hurry(struct server *s);
size_t server_connections(const struct server *s);
/* The connections without a shown key. */
size_t server_unkeyed(const struct server *s);
void server_free(struct server *s);

/* ---- the request */
const struct http1_request *exchange_request(const struct exchange *x);
/* "req_" and 16 hex digits. Also sent as X-Request-Id. */
const char *exchange_id(const struct exchange *x);
/* "127.0.0.1:5123" or "unix". */
const char *exchange_peer(const struct exchange *x);
/* Does it come from an address of this machine? */
bool exchange_is_local(const struct exchange *x);
/* 16 bytes that represent the peer's address. IPv6: its first 64 bits. */
const uint8_t *exchange_address(const struct exchange *x);
void exchange_set_arg(struct exchange *x, void *arg);
void *exchange_arg(const struct exchange *x);
/* A second argument, for code that moves the bytes on behalf of the handler (src/lib/net). */
void exchange_set_carrier(struct exchange *x, void *carrier);
void *exchange_carrier(const struct exchange *x);
/* Called once at the end of the exchange: answered completely, or the client is gone (also if it
 * closed its sending side before it had the answer). Never from inside an exchange_*() or ws_*()
 * call. */
void exchange_on_done(struct exchange *x, void (*on_done)(struct exchange *x, bool answered));

/* Count the bytes of this request for this account (which outlives it) instead of its address, and
 * its connection as one with a shown key. keyed: also after this request. Called before the body is
 * read and the answer begins. */
void exchange_set_account(struct exchange *x, struct byte_account *account, bool keyed);

/* Called by server_hurry() if there is no answer yet, for handlers that wait for something that
 * outlives the server: they should answer with the current state. */
void exchange_on_drain(struct exchange *x, void (*on_drain)(struct exchange *x));

/* Collect the body, at most max bytes (else the server answers 413), then call on_body. The bytes
 * are valid until the exchange ends. Called at once if there is no body. */
void exchange_read_all(struct exchange *x, size_t max,
		       void (*on_body)(struct exchange *x, const uint8_t *body, size_t len));

/* For handlers that stream a body and still keep it in memory: it has the deadline of a collected
 * one. exchange_reserve() counts n more bytes for the account. false: no room. exchange_release():
 * all are freed. The end of the exchange implies it. exchange_unreserve(): n of them are. */
void exchange_set_body_deadline(struct exchange *x, size_t max);
bool exchange_reserve(struct exchange *x, size_t n) MUST_USE;
void exchange_unreserve(struct exchange *x, size_t n);
void exchange_release(struct exchange *x);

/* Streams the body. on_data returns how many bytes it took: if fewer than given, it is called again
 * after exchange_resume_body(). on_end: ok is false if the body was malformed or the client is
 * gone. max as above. Handle "Expect: 100-continue". */
void exchange_read_body(struct exchange *x, uint64_t max,
			size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
			void (*on_end)(struct exchange *x, bool ok));
void exchange_resume_body(struct exchange *x);

/* ---- the answer */
/* Functions called out of order (a header for a begun answer, a second answer, more of an ended
 * one) do nothing but log it. A begun answer is then aborted. In builds with CORDON_TEST_ABORTS
 * they abort the program. */

/* Has the answer begun? No header can be added to it then. */
bool exchange_has_begun(const struct exchange *x);
/* Add a header to the answer, before it begins. Name and value must be valid. */
void exchange_header(struct exchange *x, const char *name, const char *value);
#define EXCHANGE_HEADERS_MAX ((size_t)64 * 1024)
/* Add a header that came from another server, in any case. Date and X-Request-Id replace
 * those of this server. Return -1, and add nothing, if it is not valid, if it would define where
 * the answer ends (Content-Length, Transfer-Encoding, Connection: this server writes them), or if
 * all together are longer than EXCHANGE_HEADERS_MAX. */
int exchange_pass_header(struct exchange *x, struct http1_span name,
			 struct http1_span value) MUST_USE;
/* The bytes are copied. type NULL: no Content-Type. */
void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t len);

#define EXCHANGE_CHUNKED UINT64_MAX
/* length: exact, or EXCHANGE_CHUNKED. */
void exchange_begin(struct exchange *x, int status, const char *type, uint64_t length);
/* Take up to len bytes and return how many: if the connection's bounded buffer is full it takes
 * fewer, and on_writable is called when there is room. HEAD requests: taken and dropped. */
size_t exchange_write(struct exchange *x, const void *data, size_t len);
void exchange_on_writable(struct exchange *x, void (*on_writable)(struct exchange *x));
/* Bytes that the buffer has room for now. */
size_t exchange_room(const struct exchange *x);
/* End the answer. abort: ends the connection instead, so that the client sees that the answer is
 * incomplete: by FIN where chunks or a length show it, and by a reset where nothing else does. */
void exchange_end(struct exchange *x);
void exchange_abort(struct exchange *x);

/* End it from outside of its handler: with this status if no answer has begun, else by cutting it
 * (a WebSocket gets a close frame). A complete answer is still sent. Later output of the handler is
 * dropped. Its on_done is called soon. */
void exchange_revoke(struct exchange *x, int status, const char *words);

/* ---- tunnels */
/* Answers 101 with the headers added before (Upgrade must be one, and Connection is added). Another
 * protocol follows. Only for requests without a body. exchange_write() sends, exchange_room() and
 * on_writable as in any stream. on_data as with exchange_read_body(), also for bytes that came
 * right after the head. on_end: ok: the peer has closed its sending side, which does not end the
 * tunnel. Not ok: it is gone. Only write_ms is a deadline here. The tunnel ends with exchange_end()
 * (queued bytes are sent) or exchange_abort(). */
void exchange_upgrade(struct exchange *x,
		      size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
		      void (*on_end)(struct exchange *x, bool ok));
/* Close the sending side when queued bytes have been sent. Input continues. No exchange_write()
 * after it. */
void exchange_shut(struct exchange *x);

/* ---- WebSocket */
struct ws_events {
	/* A complete message. Text is valid UTF-8. */
	void (*on_message)(struct exchange *x, bool text, const uint8_t *data, size_t len);
};
/* True if the request asks for a WebSocket, with a valid handshake. */
bool exchange_wants_ws(const struct exchange *x);
/* Answers 101. message_max bounds one message. For a longer one the connection is closed with 1009.
 * Pings are answered, and sent every 30 s. A peer that answers none is dropped. */
void exchange_accept_ws(struct exchange *x, const struct ws_events *events, size_t message_max);
/* All or nothing: false if the bounded buffer has no room now (then on_writable is called). */
bool ws_send(struct exchange *x, bool text, const void *data, size_t len);
/* While paused no message is delivered (one may still come), and only a bounded piece is read: for
 * handlers that cannot take messages now. */
void ws_pause(struct exchange *x, bool pause);
/* Start the closing handshake. on_done follows. */
void ws_close(struct exchange *x, uint16_t code, const char *reason);
