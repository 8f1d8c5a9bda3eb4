/* dialer.h - makes connections to ports of the cell for cordond outside of the cell's network
 * namespace. Called by main.c. */
#pragma once

#include <stdint.h>

#include "lib/base/own.h"

/* A non-blocking TCP socket to that port of the cell's loopback, 127.0.0.1 or, if no program
 * listens there, ::1. It may still be connecting: nothing here waits. Return 0 and the caller owns
 * *ret_fd, or an errno. */
int dialer_connect(uint16_t port, int *ret_fd) MUST_USE;
