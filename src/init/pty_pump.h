/* pty_pump.h - moves the bytes of a held PTY between it and two pipes, one step at a time. */
#pragma once

#include <poll.h>

#include "own.h"

#define PTY_PUMP_FDS 2 /* descriptors it may want to wait for at once */

struct pty_pump;

/* Takes the three descriptors, all non-blocking; closes them if out of memory (NULL). */
struct pty_pump *pty_pump_new(int master, int output, int input);

/* Closes all of it. NULL is harmless. */
void pty_pump_free(struct pty_pump *p);

void pty_pump_resize(struct pty_pump *p, unsigned short rows, unsigned short cols);

/* Writes up to PTY_PUMP_FDS entries for poll(2); returns how many. None: it has nothing more to do.
 */
unsigned pty_pump_poll_fds(const struct pty_pump *p, struct pollfd *ret_fds);

/* Moves what it can after poll(2), a few KiB at most: no program can keep PID 1 from its other
 * work.
 */
void pty_pump_move(struct pty_pump *p, const struct pollfd *fds, unsigned n);
