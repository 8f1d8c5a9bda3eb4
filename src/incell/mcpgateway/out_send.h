/* out_send.h - writes what waits for the other end of a connection or a pipe. For the fronts and
 * stdio_server.c. SIGPIPE is ignored (main.c), and the descriptor does not block. */
#pragma once

#include "lib/base/buf.h"

/* Write as much as fd takes now. Return -1 if its other end is gone. The memory of an empty
 * buffer is given back. */
int out_send(int fd, struct buf *out) MUST_USE;
