/* terminal.h - the caller's terminal in raw mode while a program in a cell has a PTY. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "lib/base/err.h"

struct terminal {
	int master; /* borrowed: the program's PTY. -1: none */
	bool raw;   /* saved must be restored */
	struct termios saved;
};

#define TERMINAL_NONE ((struct terminal){ .master = -1 })

/* The size of the terminal. Leave the numbers alone if there is none. */
void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols);

int terminal_start(struct terminal *t, int master, struct err *e) MUST_USE;
void terminal_resize(const struct terminal *t);
void terminal_stop(struct terminal *t); /* may be called again */
