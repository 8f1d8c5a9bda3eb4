/* pty_pump.h - moves bytes between the master of a held PTY and two pipes of the server. Called by
 * main.c and programs.c. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "lib/base/own.h"

#define PTY_PUMP_FDS 2 /* entries of pty_pump_poll_fds(), at most */

struct pty_pump;

/* The kernel is gVisor's, which sends the signals of VINTR, VQUIT and VSUSP without ISIG, too. */
extern bool pty_pump_always_signals;

/* Take the three descriptors, all non-blocking. Close them if out of memory (NULL). */
struct pty_pump *pty_pump_new(int master, int output, int input);

/* Close the descriptors. NULL is ignored. */
void pty_pump_free(struct pty_pump *p);

void pty_pump_resize(struct pty_pump *p, unsigned short rows, unsigned short cols);

/* Write up to PTY_PUMP_FDS entries for poll(2). Return how many. 0: input and output are closed.
 */
unsigned pty_pump_poll_fds(const struct pty_pump *p, struct pollfd *ret_fds);

/* Move bytes after poll(2), a few KiB at most, so that no program can occupy PID 1. */
void pty_pump_move(struct pty_pump *p, const struct pollfd *fds, unsigned n);

/* Does the PTY have output still to be moved? */
bool pty_pump_has_output(const struct pty_pump *p);
