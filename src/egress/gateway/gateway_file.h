/* gateway_file.h - answers a request with content of egress itself, without a server: a file of the
 * package cache, or bytes made while they are sent (shaped metadata). Called by the package gate
 * instead of gateway_dial(). gateway.c calls gateway_file_step().
 *
 * The request must have no unread body (x->out.done). Content is sent in bounded pieces as the cell
 * reads, and counts against the session's limits like that of a server. Answers carry neither Age
 * nor anything else that tells that they were cached. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "egress/gateway/gateway_base.h"

struct digest; /* digest.h */

struct gateway_content {
	int status;		   /* 0: 200 */
	const char *type;	   /* NULL or "": application/octet-stream */
	const char *etag;	   /* with its quotes. NULL or "": none */
	const char *last_modified; /* NULL or "": none */
	const char *reason;	   /* the reason phrase. NULL: the usual one */
	/* Either a file, whole and known to be right: fd is taken over, in any case. Requests with
	 * If-None-Match are answered 304, and single ranges 206. */
	int fd; /* -1: produced */
	uint64_t size;
	/* A file's required digest, or NULL. Copied. It is hashed as it is sent, and its last bytes
	 * wait for the hash. For a range all of it is hashed first. A wrong one is cut, and on_bad
	 * is called, once. */
	const struct digest *expected;
	void (*on_bad)(void *arg);
	/* Or produced bytes: returns how many were written to ret, 0 at the end, -1 if it failed
	 * (the answer is cut), GATEWAY_CONTENT_LATER: none now, gateway_file_resume() says when. Of
	 * unknown length: sent in chunks. */
	ssize_t (*produce)(void *arg, uint8_t *ret, size_t cap);
	void (*release)(void *arg); /* called once, whatever happens. NULL: nothing to do */
	void *arg;
};
#define GATEWAY_CONTENT_LATER (-2)

/* Send the head, and begin with the content. Strings are copied. End the request by itself, with
 * its record. */
void gateway_file_serve(struct gateway *x, struct gateway_content *content);
/* Produced content can continue. */
void gateway_file_resume(struct gateway *x);

/* ---- for gateway*.c */

/* A step of GATEWAY_FILE. True if anything moved. */
bool gateway_file_step(struct gateway *x);
/* The request ends: releases the content. */
void gateway_file_end(struct gateway *x);
