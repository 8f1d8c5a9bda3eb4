/* addr.h - addresses to listen on and connect to: "127.0.0.1:4983", "[::1]:4983",
 * "unix:/run/x.sock". Numeric only, so that no function here waits for DNS. The client resolves
 * names itself (net/client). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lib/base/err.h"

#define ADDR_TEXT_MAX 128 /* enough for every address, with its NUL */

struct addr {
	struct sockaddr_storage at;
	socklen_t len;
};

/* Read the whole text as one address. "localhost:PORT" is 127.0.0.1. "*:PORT" is [::]:PORT: all of
 * IPv4 and IPv6. Port 0 lets the kernel choose. Pure. */
int addr_parse(const char *text, struct addr *ret, struct err *e) MUST_USE;

/* As addr_parse() reads it. A Unix socket without a name (a client's) is "unix". Cut at cap. */
void addr_format(const struct addr *a, char *ret_text, size_t cap);

/* Reachable from this machine only: 127/8, ::1, ::ffff:127/104, Unix sockets. */
bool addr_is_loopback(const struct addr *a);
bool addr_is_unix(const struct addr *a);
/* The port. 0 for Unix sockets. */
uint16_t addr_port(const struct addr *a);

/* The address a socket is bound to, with the port that the kernel chose. */
int addr_of_socket(int fd, struct addr *ret, struct err *e) MUST_USE;

/* A bound, listening, non-blocking, close-on-exec socket, owned by the caller. A Unix socket gets
 * unix_mode from the start. A stale socket at that path (connect() is refused) is replaced.
 * A socket in use or any other file is an error. */
int addr_listen(const struct addr *a, mode_t unix_mode, struct err *e) MUST_USE;

/* A connected, non-blocking, close-on-exec socket (TCP: no Nagle), owned by the caller. Wait at
 * most timeout_ms. Fail with "cannot connect to 127.0.0.1:4983: Connection refused". */
int addr_connect(const struct addr *a, uint64_t timeout_ms, struct err *e) MUST_USE;
