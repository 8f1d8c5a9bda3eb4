/* cell_socket.h - RUN/cells/<id>.sock, by which a daemon finds a cell that an earlier one made. */
#pragma once

#include "err.h"

/* Makes the name; PID 1 calls listen(2) on it, so that those who connect see PID 1 as their peer.
 */
int cell_socket_bind(int cells_fd, const char *id, int *ret_fd, struct err *e) MUST_USE;

/* ERR_NOT_FOUND: no process listens there (any more). */
int cell_socket_connect(int cells_fd, const char *id, int *ret_fd, struct err *e) MUST_USE;

void cell_socket_remove(int cells_fd, const char *id);
