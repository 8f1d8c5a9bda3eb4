/* link.h - a keep-alive HTTP/1.1 connection for measuring: sends one request at a time and reads
 * its answer, with as little in between as possible. It trusts the server it measures: what it does
 * not understand ends the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LINK_BODY_MAX 65536 /* of an answer that is read whole */

struct link {
	int fd; /* owned */
	char buf[LINK_BODY_MAX];
	size_t have;	  /* bytes of the answer so far */
	int status;	  /* of a whole answer */
	const char *body; /* in buf, ends with '\0' */
	size_t body_len;
};

/* How a body arrives: by length, in chunks, or (a WebSocket) as the connection's own bytes. */
struct link_body {
	uint64_t left; /* of the body or of this chunk */
	bool chunked;
};

/* Whom to talk to from now on: "127.0.0.1:PORT", and the key. */
void link_target(const char *address, const char *key);

/* Connects. Every failure ends the program, here and below. */
void link_open(struct link *l);
void link_close(struct link *l);

/* Sends a request. body NULL: none. The answer before it must have been read. */
void link_send(struct link *l, const char *method, const char *path, const char *body);

/* Sends the head of a request whose body of len bytes the caller sends. more: header lines. */
void link_send_head(struct link *l, const char *method, const char *path, uint64_t len,
		    const char *more);

/* Reads once. True if the answer is whole. flags: as for recv(2). */
bool link_feed(struct link *l, int flags);

/* Sends and reads, and says the status. */
int link_ask(struct link *l, const char *method, const char *path, const char *body);

/* Reads the head of an answer with a long body, whose status must be the one wanted. What of the
 * body came with it is at l->body, l->body_len bytes. */
struct link_body link_head(struct link *l, int status);

/* Counts the data bytes among what arrived. True: that was the end. */
bool link_count(struct link_body *b, const char *data, size_t len, uint64_t *counted);

/* The text of a member "name":"..." in the answer's body, up to its closing quote. */
void link_member(const struct link *l, const char *name, char *ret, size_t cap);

int64_t link_now_ns(void);
void link_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
