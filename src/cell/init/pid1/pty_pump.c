/* pty_pump.c - theory of operation
 *
 * Output goes from the PTY to a pipe in pieces of a page. A pipe of Linux that polls writable has
 * room for a page, and PID 1 is its only writer, so read bytes can be written. One of gVisor may
 * have room for less. Then the rest waits here. (splice(2) would fill the sixteen buffers of the
 * pipe with small pieces.) Input goes the other way. A PTY may accept less than it was offered, so
 * the rest of a small piece is kept here.
 *
 * When the last process closes the slave side, reading fails, and the output pipe is closed. */
#include "cell/init/pid1/pty_pump.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/io.h"

#define OUT_PIECE 4096 /* a page, PIPE_BUF */

struct pty_pump {
	int master, output, input; /* owned. -1: closed */
	bool output_full;
	uint8_t *rest; /* owned: rest[rest_at .. rest_have) waits to be written to the pipe */
	uint16_t rest_at, rest_have;
	uint16_t at, have; /* bytes[at .. have) wait to be written to the PTY */
	uint8_t bytes[256];
};

struct pty_pump *pty_pump_new(int master, int output, int input)
{
	struct pty_pump *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		io_close_all((int[]){ master, output, input }, 3);
		return NULL;
	}
	p->master = master;
	p->output = output;
	p->input = input;
	return p;
}

void pty_pump_free(struct pty_pump *p)
{
	if (p == NULL)
		return;
	io_close_all((int[]){ p->master, p->output, p->input }, 3);
	free(p->rest);
	free(p);
}

void pty_pump_resize(struct pty_pump *p, unsigned short rows, unsigned short cols)
{
	struct winsize size = { .ws_row = rows, .ws_col = cols };

	(void)ioctl(p->master, TIOCSWINSZ,
		    &size); /* fails if the PTY is closed, which does not matter */
}

unsigned pty_pump_poll_fds(const struct pty_pump *p, struct pollfd *ret_fds)
{
	unsigned n = 0;

	if (p->output >= 0)
		ret_fds[n++] = p->output_full ? (struct pollfd){ p->output, POLLOUT, 0 }
					      : (struct pollfd){ p->master, POLLIN, 0 };
	if (p->input >= 0)
		ret_fds[n++] = p->at < p->have ? (struct pollfd){ p->master, POLLOUT, 0 }
					       : (struct pollfd){ p->input, POLLIN, 0 };
	return n;
}

static bool pty_pump_later(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The part of a piece that the pipe did not take. Return false if there is no memory for it. */
static bool pty_pump_keep_rest(struct pty_pump *p, const uint8_t *piece, size_t n, size_t written)
{
	p->rest = malloc(n - written);
	if (p->rest == NULL)
		return false;
	memcpy(p->rest, piece + written, n - written);
	p->rest_at = 0;
	p->rest_have = (uint16_t)(n - written);
	p->output_full = true;
	return true;
}

static void pty_pump_write_rest(struct pty_pump *p)
{
	ssize_t n = write(p->output, p->rest + p->rest_at, (size_t)(p->rest_have - p->rest_at));

	if (n > 0)
		p->rest_at = (uint16_t)(p->rest_at + n);
	else if (!pty_pump_later(n))
		io_close_all(&p->output, 1);
	if (p->output >= 0 && p->rest_at < p->rest_have)
		return;
	free(p->rest);
	p->rest = NULL;
	p->output_full = false;
}

static void pty_pump_move_output(struct pty_pump *p)
{
	uint8_t piece[OUT_PIECE];
	struct pollfd room = { .fd = p->output, .events = POLLOUT };
	ssize_t n, written;

	if (p->rest != NULL) {
		pty_pump_write_rest(p);
		return;
	}
	p->output_full = poll(&room, 1, 0) <= 0;
	if (p->output_full)
		return;
	n = read(p->master, piece, sizeof(piece));
	if (pty_pump_later(n))
		return;
	written = n <= 0 ? -1 : write(p->output, piece, (size_t)n);
	if (n > 0 && pty_pump_later(written))
		written = 0;
	if (written < 0 ||
	    (written < n && !pty_pump_keep_rest(p, piece, (size_t)n, (size_t)written)))
		io_close_all(&p->output, 1);
}

/* ---- terminals of gVisor */

bool pty_pump_always_signals;

static const int signal_chars[] = { VINTR, VQUIT, VSUSP };

static bool pty_pump_makes_signal(const struct termios *t, uint8_t byte)
{
	for (size_t i = 0; i < COUNT(signal_chars); i++)
		if (t->c_cc[signal_chars[i]] == byte && byte != _POSIX_VDISABLE)
			return true;
	return false;
}

static void pty_pump_set_signal_chars(int master, const struct termios *from)
{
	struct termios now;

	if (tcgetattr(master, &now) < 0)
		return;
	for (size_t i = 0; i < COUNT(signal_chars); i++)
		now.c_cc[signal_chars[i]] =
			from == NULL ? _POSIX_VDISABLE : from->c_cc[signal_chars[i]];
	(void)tcsetattr(master, TCSANOW, &now);
}

/* The terminal is raw, and its kernel makes signals of three characters all the same: while one of
 * them is written, none has that meaning. */
static ssize_t pty_pump_write_raw(int master, const uint8_t *bytes, size_t n,
				  const struct termios *t)
{
	size_t plain = 0;
	ssize_t written;

	while (plain < n && !pty_pump_makes_signal(t, bytes[plain]))
		plain++;
	if (plain > 0)
		return write(master, bytes, plain);
	pty_pump_set_signal_chars(master, NULL);
	written = write(master, bytes, 1);
	pty_pump_set_signal_chars(master, t);
	return written;
}

static ssize_t pty_pump_write_input(int master, const uint8_t *bytes, size_t n)
{
	struct termios t;

	if (pty_pump_always_signals && tcgetattr(master, &t) == 0 && (t.c_lflag & ISIG) == 0)
		return pty_pump_write_raw(master, bytes, n, &t);
	return write(master, bytes, n);
}

static void pty_pump_move_input(struct pty_pump *p)
{
	ssize_t n;

	if (p->at == p->have) {
		n = read(p->input, p->bytes, sizeof(p->bytes));
		if (pty_pump_later(n))
			return;
		if (n <= 0) {
			io_close_all(&p->input, 1);
			return;
		}
		p->at = 0;
		p->have = (uint16_t)n;
	}
	n = pty_pump_write_input(p->master, p->bytes + p->at, (size_t)(p->have - p->at));
	if (n > 0)
		p->at = (uint16_t)(p->at + n);
	else if (!pty_pump_later(n))
		io_close_all(&p->input, 1);
}

void pty_pump_move(struct pty_pump *p, const struct pollfd *fds, unsigned n)
{
	bool output = p->output >= 0;

	/* In the order of pty_pump_poll_fds(). */
	for (unsigned i = 0; i < n; i++) {
		if (fds[i].revents == 0)
			continue;
		if (i == 0 && output)
			pty_pump_move_output(p);
		else
			pty_pump_move_input(p);
	}
}

bool pty_pump_has_output(const struct pty_pump *p)
{
	/* poll(2) sees bytes that the kernel has still to move to the master's side. FIONREAD does
	 * not. */
	struct pollfd readable = { .fd = p->master, .events = POLLIN };

	return p->output >= 0 && (p->rest != NULL || poll(&readable, 1, 0) > 0);
}
