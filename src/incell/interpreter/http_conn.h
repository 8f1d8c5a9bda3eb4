/* http_conn.h - connections of clients: HTTP/1.1 requests with small or large bodies, answers whole
 * or as a stream. Called by serve.c, which accepts and answers them.
 *
 * Invariants: functions that serve.c calls only append to buffers. Reading, writing and closing
 * happen in a task at the end of the turn. So no callback of a context can close the connection of
 * another, or of itself. */
#pragma once

#include <stdbool.h>

#include "incell/interpreter/context.h"
#include "lib/base/buf.h"
#include "lib/http/chunk.h"
#include "lib/http/http1.h"
#include "lib/loop/loop.h"

#define CONN_MAX 128
#define CONN_BODY_MAX (17U << 20)
#define CONN_BODIES_MAX (96U << 20) /* of all connections */
#define CONN_PATH_MAX 512

struct http_server;

enum http_conn_state {
	CONN_HEAD, /* of the next request */
	CONN_BODY,
	CONN_BUSY,   /* serve.c works on it */
	CONN_STREAM, /* an answer in pieces has begun */
	CONN_DRAIN,  /* answered. Further bytes of the client are read and dropped */
};

struct http_conn {
	struct http_conn *next, **link;
	struct http_server *server;
	int fd;	   /* owned */
	bool ours; /* of a user who may run code: peer_user.h */
	struct loop_fd io;
	struct loop_task work;
	struct loop_timer timer;
	enum http_conn_state state;
	struct buf in, out, body;
	size_t scanned; /* of in, for the end of a head */
	struct chunk chunk;
	uint64_t body_left;
	bool body_chunked;
	bool chunked; /* the answer can be */
	bool keep_alive, over /* when out is empty */, gone;
	enum http1_method method;
	char path[CONN_PATH_MAX];
	struct context_run execution;
	struct context *created; /* by this request, while it has no answer */
	size_t charged;		 /* bytes of code, counted in body_bytes */
	bool refused;
	size_t drained;	   /* bytes that came after that */
	bool served;	   /* one request at least */
	uint64_t moved_ns; /* when bytes last came or went */
};

/* Close a connection that waits for its client's next request, if there is one. */
void conn_evict(struct http_server *s);
/* Take fd. */
int conn_open(struct http_server *s, int fd, struct err *e) MUST_USE;

void conn_answer(struct http_conn *c, int status, const char *type, const void *body, size_t n);
void conn_text(struct http_conn *c, int status, const char *text);
/* A stream of lines: begun, filled, ended. */
void conn_stream(struct http_conn *c);
bool conn_stream_add(struct http_conn *c, const void *lines, size_t n); /* true: enough for now */
void conn_stream_end(struct http_conn *c);

/* ---- implemented by serve.c */

/* A request is complete. Exactly one answer follows, now or later. */
void api_handle(struct http_conn *c);
/* The connection is about to be closed. */
void api_abandon(struct http_conn *c);

struct http_server {
	struct loop *loop;
	struct contexts contexts;
	struct http_conn *conns;
	unsigned nconns;
	size_t body_bytes; /* of all connections */
	struct loop_fd tcp, local, env;
	bool listening;
	struct buf env_line;
	bool env_over; /* standard input has ended */
	/* Read what cordond has sent before it let the client in: serve.c. */
	void (*before_request)(struct http_server *s);
	void (*on_room)(struct http_server *s); /* a connection was closed */
};
