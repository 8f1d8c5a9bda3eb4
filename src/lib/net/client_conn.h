/* client_conn.h - the structure of a client: its connection, and the answer being read. Only for
 * src/lib/net. */
#pragma once

#include "lib/base/err.h"
#include "lib/http/chunk.h"
#include "lib/http/http1.h"
#include "lib/http/ws.h"
#include "lib/net/fifo.h"

struct tls;
struct tls_conn;

struct client {
	/* The server. See client_options. */
	bool is_unix, is_tls;
	char host[256]; /* a name, an address, or the path of a Unix socket */
	char port[8];
	char host_port[280]; /* for Host */
	char prefix[256];    /* prefix of every target */
	char agent[64];
	uint64_t connect_ms, io_ms;
	void (*on_slow)(void); /* see client_on_slow() */
	struct tls *tls;

	int fd; /* -1: not connected */
	struct tls_conn *tls_conn;
	bool used; /* a request was answered on it */
	struct fifo in;

	/* The answer. */
	char *head; /* what answer points into */
	struct http1_response answer;
	uint64_t left;
	struct chunk chunk;
	bool over; /* the body was read to its end */

	/* Server-sent events: lines not read yet, and the data of the last event. */
	struct fifo lines, event;
	size_t lines_scanned;
	char event_name[64], event_id[128];

	/* WebSocket. */
	struct fifo message;
	bool ws_given; /* the message was returned: dropped before the next */
	bool ws_frag;  /* inside a message of several fragments */
	bool ws_text;  /* text */
	bool ws_closed, ws_close_sent;
	char ws_reason[WS_CONTROL_MAX];
};

/* Connect, if there is no usable connection. */
int client_conn_open(struct client *c, struct err *e) MUST_USE;
/* Close it, and forget the bytes read. No effect if it is closed. */
void client_conn_close(struct client *c);
/* Is the connection still open, as far as can be seen without sending? */
bool client_conn_is_alive(struct client *c);
/* Read more input into c->in: 1. 0 at the end of the connection. -1. -2 (no error set) after
 * timeout_ms. */
int client_conn_fill(struct client *c, uint64_t timeout_ms, struct err *e) MUST_USE;
/* Send all: 0, or -1. Input that comes in the meantime is put into c->in, so that two ends that
 * send to each other do not wait forever. stop: returns 1 as soon as input has come. */
int client_conn_send(struct client *c, const void *data, size_t len, bool stop,
		     struct err *e) MUST_USE;
/* io_ms, with 0 as "no bound". */
uint64_t client_conn_timeout_ms(const struct client *c);
/* Read the head of the final answer: 1. 0 if the connection ended before its first byte. -1. */
int client_conn_read_head(struct client *c, enum http1_method method, struct err *e) MUST_USE;
/* Mark an error of the connection, whose message stays, with REASON_UNAVAILABLE. Return -1. */
int client_conn_lost(struct err *e);
