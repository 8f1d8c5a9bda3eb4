/* cell_socket.h - RUN/cells/<id>.sock, by which a daemon finds a cell that an earlier one made. */
#pragma once

#include "err.h"

/* Binds a socket to the name. PID 1 calls listen(2) on it, so that a process that connects sees PID
 * 1 as its peer. */
int cell_socket_bind(int cells_fd, const char *id, int *ret_fd, struct err *e) MUST_USE;

/* ERR_NOT_FOUND: no process listens there (any more). */
int cell_socket_connect(int cells_fd, const char *id, int *ret_fd, struct err *e) MUST_USE;

void cell_socket_remove(int cells_fd, const char *id);
