/* peer_user.h - which user of the cell is at the other end of a connection. Called by serve.c, once
 * for each connection, and by run.c. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/err.h"

/* May this peer run code here: is it root, or the user who runs this program? Kernels run as root,
 * so a user who may use them is root. False also if the user cannot be found: the other end is
 * closed, is not in this network namespace, or /proc cannot be read. fd: a connected Unix or TCP
 * socket. */
bool peer_user_is_ours(int fd);
