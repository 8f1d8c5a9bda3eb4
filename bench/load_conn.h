/* load_conn.h - one connection of egressload: connects, perhaps through a proxy, perhaps with TLS,
 * and asks for the same thing again and again. It trusts the server it measures: bodies have a
 * Content-Length and are counted, not kept. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LOAD_TEXT_MAX 1024

struct load_plan {
	struct sockaddr_storage to; /* the server, or the proxy */
	socklen_t to_len;
	const char *name;	    /* of the server: what its certificate must say */
	SSL_CTX *tls;		    /* NULL: plain */
	bool close;		    /* a connection for each request */
	char tunnel[LOAD_TEXT_MAX]; /* "": no CONNECT comes first */
	char request[LOAD_TEXT_MAX];
};

enum load_state {
	LOAD_CONNECT, /* waits until it can be written to */
	LOAD_TUNNEL,  /* waits for the answer to CONNECT */
	LOAD_SHAKE,
	LOAD_SEND,
	LOAD_HEAD,
	LOAD_BODY,
};

struct load_conn {
	const struct load_plan *plan;
	int fd; /* owned; -1: not open */
	SSL *tls;
	enum load_state state;
	char head[8192]; /* of the answer, so far */
	size_t have;
	uint64_t left;	   /* of the body */
	int64_t begin_ns;  /* of the request; with plan->close, of the connection */
	uint64_t bytes;	   /* of bodies, in all */
	unsigned again;	   /* of them, for this request */
	uint64_t reopened; /* how often the other side ended a connection between two answers */
};

enum load_event {
	LOAD_WAIT,   /* until the descriptor is ready again */
	LOAD_DONE,   /* an answer is whole, with status 200; call again at once */
	LOAD_FAILED, /* why is in load_conn_why(); the connection is closed, call again to go on */
};

/* Does what can be done now. Registers its descriptors with epoll, edge-triggered, data.ptr c. */
enum load_event load_conn_go(struct load_conn *c, int epoll);
void load_conn_close(struct load_conn *c);
/* Of the last failure. */
const char *load_conn_why(void);
