/* relay.h - moves bytes between cordon's standard streams and a program in a cell. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_BUFFER 65536
#define RELAY_POLLS 3

/* One direction. A stream has ended when from is -1 and nothing is buffered. Then to is closed too,
 * if it is the cell's end. */
struct relay_stream {
	int from, to;
	bool tty;     /* input to a PTY: its end is a character, not a closed descriptor */
	char last;    /* input: the last byte read */
	bool counted; /* output: counts against the limit */
	size_t chunk; /* most to write at a time without risk of blocking */
	size_t at, have;
	char buffer[RELAY_BUFFER];
};

struct relay {
	struct relay_stream in, out, err;
	bool held;	/* PID 1 keeps these pipes open: that they are closed here is not noticed */
	bool unread;	/* held, and the output is dropped: beyond the limit, or without a reader */
	uint64_t limit; /* of output bytes. 0: none */
	uint64_t output_bytes;
	bool truncated;
	int write_error; /* errno of a write that lost output. 0 also if the reader closed its end
			  */
};

/* fds: the program's stdin (or -1), stdout, stderr, all owned by the relay. With a PTY, its
 * master is both stdin and stdout: give it twice. */
void relay_init(struct relay *r, int in, int out, int err, uint64_t limit);
void relay_init_tty(struct relay *r, int in, int out, uint64_t limit);
/* relay_init() with a PTY in a guest, by pipes. The caller ends the program when its output is
 * unread. It is read on until then: PID 1 reports the end only when all of it is in its pipe. */
void relay_init_held(struct relay *r, int in, int out, uint64_t limit);
void relay_release(struct relay *r);

/* Fill in what to wait for. Return how many. */
size_t relay_wants(const struct relay *r, struct pollfd *fds);

/* Do all work possible now, after poll. */
void relay_turn(struct relay *r, const struct pollfd *fds, size_t n);

/* The program is gone: pass on the rest of its output. */
void relay_drain(struct relay *r);
