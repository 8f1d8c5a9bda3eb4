/* secret_socket.h - serves one connection to the socket of a cell's secrets. Called by
 * secret_builtin.c. */
#pragma once

#include "secret_table.h"

/* Runs in a child process of its own and never returns. Finds the process at the other end, reads a
 * name and a newline, and writes the secret's value if that process may have it; else it closes the
 * connection. */
void secret_socket_answer(int sock, const struct secret_table *t) __attribute__((noreturn));
