/* secret_socket.h - one connection to the socket of a cell's secrets: is it the program that
 * may ask, and what for? */
#pragma once

#include "secret_table.h"

/* In a child of its own, which ends with it: asks the kernel for the process at the other end,
 * reads a name and a newline, answers with the value, or closes without a word. Never returns. */
void secret_socket_answer(int sock, const struct secret_table *t) __attribute__((noreturn));
