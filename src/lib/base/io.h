/* io.h - whole reads and writes, and descriptors passed over Unix sockets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

#define IO_FDS_MAX 32

/* Write all of it, or fails. Retries EINTR. The descriptor must be blocking. */
int io_write_all(int fd, const void *data, size_t len, struct err *e) MUST_USE;

/* Read a whole small file (a proc or cgroup attribute) as a string. Return its length. Fail
 * if it does not fit into cap - 1 bytes. */
ssize_t io_read_file(int dir_fd, const char *path, char *ret_text, size_t cap,
		     struct err *e) MUST_USE;

/* Write one attribute of a pseudo file system in one write(2). */
int io_write_file(int dir_fd, const char *path, const char *text, struct err *e) MUST_USE;

/* Send one message with descriptors attached. Blocking. Never raises SIGPIPE. */
int io_send(int sock, const void *data, size_t len, const int *fds, size_t nfds,
	    struct err *e) MUST_USE;

/* Receive one message (or, on a stream, the bytes already there). Return its length, 0 at the end
 * of the connection. The caller owns the *ret_nfds descriptors in ret_fds, all close-on-exec. More
 * than cap descriptors are an error, and all are closed. ERR_LIMIT: the message is in data, but the
 * process is at its limit of descriptors, and those of the message are lost. */
ssize_t io_recv(int sock, void *data, size_t len, int *ret_fds, size_t cap, size_t *ret_nfds,
		struct err *e) MUST_USE;
/* As above, but a message without room for its descriptors is received without them: *ret_lost. */
ssize_t io_recv_lossy(int sock, void *data, size_t len, int *ret_fds, size_t cap, size_t *ret_nfds,
		      bool *ret_lost, struct err *e) MUST_USE;

/* Close each >= 0 and set it to -1. */
void io_close_all(int *fds, size_t n);
