/* server_call.h - a request to the server by its Unix socket, for the verbs `run` and `ready`.
 * Blocking.
 */
#pragma once

#include "buf.h"

/* Connects, waiting up to wait_ms for the server to be there. */
int call_connect(const char *socket, unsigned wait_ms, int *ret_fd, struct err *e) MUST_USE;

/* Sends a request. body NULL: GET. */
int call_send(int fd, const char *path, const void *body, size_t n, struct err *e) MUST_USE;

/* Reads the answer: *ret_status; then each piece of the body is given to on_piece() as it comes;
 * one that returns -1 ends it. ERR_SYSTEM: the server is gone. */
int call_receive(int fd, int *ret_status,
		 int (*on_piece)(void *arg, const void *bytes, size_t n, struct err *e), void *arg,
		 struct err *e) MUST_USE;
