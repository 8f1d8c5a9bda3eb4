/* pipe_io.h - reads and writes pipes that come from cells, without blocking. PID 1 may hold the
 * same open file and clear O_NONBLOCK at any moment, so bytes go through a pipe of this process by
 * splice(2) with SPLICE_F_NONBLOCK, which does not depend on that flag. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

/* Open the descriptors of the functions below, so that none of them can fail for want of one. Call
 * it once, before the first client. Without it they open it themselves. */
int pipe_io_setup(struct err *e) MUST_USE;

/* As read(2): -1 with EAGAIN if there is nothing now, 0 at the end. 64 KiB at most. */
ssize_t pipe_io_read(int fd, void *ret, size_t cap);

/* How many bytes were taken, 0 if the pipe is full. -1 if it has no reader any more. */
ssize_t pipe_io_write(int fd, const void *data, size_t len);

/* The first bytes in the pipe, which stay there: 64 KiB at most, perhaps fewer than there are. -1
 * with EAGAIN if there is nothing now. */
ssize_t pipe_io_peek(int fd, void *ret, size_t cap);

/* Take up to n bytes out of the pipe, unread. Return how many, 0 at the end, -1 with EAGAIN if
 * there is nothing now. */
ssize_t pipe_io_drop(int fd, size_t n);
