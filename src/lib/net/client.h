/* client.h - an HTTP/1.1 client for programs that may wait: one connection, one request at a
 * time, kept alive and reopened as needed. Plain, TLS, or over a Unix socket. Blocks in poll(2),
 * never longer than the timeouts. Everything it keeps is bounded, and the server's bytes are not
 * trusted.
 *
 *	c = client_new(&options, e);
 *	client_send(c, &request, e);            sends all of it, reads the head of the answer
 *	client_status(c), client_header(c, ...)
 *	client_read(c, ...) until 0             or client_read_all(), or client_sse_next()
 *
 * The next client_send() may follow at any time. The rest of an answer is dropped (with the
 * connection, if it is long). A connection that cannot be made, or ends too early, is an error with
 * REASON_UNAVAILABLE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct client;

struct client_options {
	/* "http://127.0.0.1:4983", "https://host" (443), "unix:/run/cordon/api.sock". A path at the
	 * end is a prefix of every target. */
	const char *url;
	const char *ca_file;	/* PEM, instead of the system's. NULL: the system's */
	bool insecure;		/* do not verify certificates. Only if a person asked for it */
	const char *user_agent; /* NULL: "cordon/VERSION" */
	uint64_t connect_ms;	/* to connect, TLS handshake included. 0: 10 s */
	uint64_t io_ms;		/* without progress. 0: no bound (long answers, streams) */
};

/* Connect at the first request, not here. The options are copied. */
struct client *client_new(const struct client_options *o, struct err *e) MUST_USE;
void client_free(struct client *c);
/* Is the server on this machine: at a Unix socket or a loopback address? */
bool client_is_local(const struct client *c);
/* Close the connection, if there is one. The client can be used again. */
void client_close(struct client *c);

#define CLIENT_SLOW_MS 1000
/* Called once in each wait of more than CLIENT_SLOW_MS. NULL: nothing. */
void client_on_slow(struct client *c, void (*fn)(void));

struct client_header {
	const char *name, *value; /* valid for HTTP. Else the request is refused */
};

/* Return the next bytes of a body: how many (at most cap), 0 at its end, -1 with e set. */
typedef ssize_t client_source_fn(void *arg, void *buf, size_t cap, struct err *e);

struct client_request {
	const char *method; /* "GET" */
	const char *target; /* "/v1/sessions?limit=10", percent-encoded by the caller */
	const struct client_header *headers;
	size_t nheaders;
	const char *type; /* Content-Type. NULL: none */
	/* The body: bytes, or source, chunked (source_len 0), or with the exact length known. */
	const void *body;
	size_t body_len;
	client_source_fn *source;
	void *source_arg;
	uint64_t source_len;
};

/* A source for a descriptor (file, pipe), arg: int *. */
ssize_t client_source_fd(void *arg, void *buf, size_t cap, struct err *e);

/* Send the request and read the head of the answer (any status is success). A kept-alive
 * connection that the server has closed since is reopened once, unless a source was already read
 * from or the server may have begun to act (only idempotent methods are sent twice). An answer that
 * comes while the body is still being sent ends the sending. */
int client_send(struct client *c, const struct client_request *r, struct err *e) MUST_USE;

/* ---- the answer to the last client_send() */
int client_status(const struct client *c);
/* Copy the value of the first header of this name. False: there is none, or it does not fit. */
bool client_header(const struct client *c, const char *name, char *ret_value, size_t cap);
/* The length of the body, if it is known from the head. Else UINT64_MAX. */
uint64_t client_length(const struct client *c);

/* The next bytes of the body, as they come: > 0. 0 at its end. -1 (cut short, timeout). */
ssize_t client_read(struct client *c, void *buf, size_t cap, struct err *e) MUST_USE;
/* The rest of the body, with a NUL after *ret_len bytes. The caller frees it. Fail if it is longer
 * than max. */
int client_read_all(struct client *c, size_t max, char **ret_body, size_t *ret_len,
		    struct err *e) MUST_USE;
/* The rest of the body, piece by piece. on_data returns 0, or -1 to stop with e set. */
int client_read_each(struct client *c,
		     int (*on_data)(void *arg, const void *data, size_t len, struct err *e),
		     void *arg, struct err *e) MUST_USE;

/* For callers with a poll(2) of their own: the descriptor, or -1, and whether bytes have already
 * been read, which poll does not report. */
int client_fd(const struct client *c);
bool client_pending(const struct client *c);

/* ---- server-sent events */
#define CLIENT_EVENT_MAX ((size_t)1024 * 1024)

struct client_event {
	/* NUL-terminated, valid until the next call. "" if absent (name: "message"). */
	const char *name, *id, *data;
	size_t data_len;
};

/* The next event of an answer of type text/event-stream: 1. 0 at its end. -1. Comments are skipped.
 * An event longer than CLIENT_EVENT_MAX is an error. */
int client_sse_next(struct client *c, struct client_event *ret, struct err *e) MUST_USE;

/* ---- WebSocket */
#define CLIENT_WS_MESSAGE_MAX ((size_t)16 * 1024 * 1024)

enum client_ws_kind { CLIENT_WS_TEXT, CLIENT_WS_BINARY, CLIENT_WS_CLOSED };

struct client_ws_message {
	enum client_ws_kind kind;
	const uint8_t *data; /* valid until the next call. CLOSED: the reason, UTF-8 */
	size_t len;
	/* CLOSED: 1000, .... 1005 if none was given, 1006 if the connection just ended */
	uint16_t code;
};

/* Send the upgrade: 0: accepted. 1: the server answered otherwise (see client_status(),
 * client_read_all()). -1. */
int client_ws_open(struct client *c, const char *target, const struct client_header *headers,
		   size_t nheaders, struct err *e) MUST_USE;
int client_ws_send(struct client *c, bool text, const void *data, size_t len,
		   struct err *e) MUST_USE;
/* Send a close frame. client_ws_recv() then returns the remaining messages, and CLOSED. */
int client_ws_close(struct client *c, uint16_t code, const char *reason, struct err *e) MUST_USE;
/* The next complete message: 1. 0 if none came within timeout_ms (UINT64_MAX: no bound). -1. Pings
 * are answered. After CLOSED there are no more. */
int client_ws_recv(struct client *c, uint64_t timeout_ms, struct client_ws_message *ret,
		   struct err *e) MUST_USE;
