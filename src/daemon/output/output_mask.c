/* output_mask.c - theory of operation
 *
 * Output without a mask moves by splice(2) and is never in cordond's memory. With a mask it must be
 * read: it is peeked at with tee(2) and masked. Passed bytes are written to the log and then
 * removed from the pipe. Held bytes (always the last ones) stay in the pipe, which PID 1 holds,
 * too. So a killed daemon loses no held bytes, and nothing unmasked is ever written.
 *
 * Writing to the log and removing from the pipe are two steps, and a daemon can die between them.
 * So the record is open, which readers skip, until the second step is done. The next daemon
 * compares the pipe with the open record. If they are equal apart from masked bytes, the record is
 * removed, since its bytes are still in the pipe. Otherwise the bytes were removed, and the record
 * is closed. Only output that repeats itself exactly at that place could be mistaken for the other.
 *
 * The cell may change pages that it has given to a pipe (vmsplice(2)), so the masked copy is
 * written. It may also fill the pipe with pieces so small that the held bytes hide the rest: then
 * the mask does not wait for more. */
#include "daemon/output/output_mask.h"

#include <assert.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/output/pipe_io.h"

#define PEEK_MAX 65536U
#define HOLD_MAX 24576U /* of a pipe's bytes: so that bytes after them can be peeked at */

size_t output_mask_held(const struct output_mask *k)
{
	return mask_stream_held(&k->stream);
}

void output_mask_release(struct output_mask *k)
{
	mask_stream_release(&k->stream);
}

typedef size_t give_fn(const struct mask *m, struct mask_stream *s, uint8_t *out);

static size_t output_mask_give_held(const struct mask *m, struct mask_stream *s, uint8_t *out)
{
	return mask_tick(m, s, false, out);
}

static void output_mask_give(struct output_mask *k, const struct mask *m, struct output_log *l,
			     enum output_stream stream, int pipe_fd, uint64_t now_ms, give_fn *fn)
{
	OWN_MEM uint8_t *out = malloc(output_mask_held(k) + 1);
	size_t n;

	assert(out != NULL);
	n = fn(m, &k->stream, out);
	output_log_put(l, stream, pipe_fd, out, n, now_ms);
}

void output_mask_tick(struct output_mask *k, const struct mask *m, struct output_log *l,
		      enum output_stream stream, int pipe_fd, uint64_t now_ms)
{
	output_mask_give(k, m, l, stream, pipe_fd, now_ms, output_mask_give_held);
}

void output_mask_flush(struct output_mask *k, const struct mask *m, struct output_log *l,
		       enum output_stream stream, int pipe_fd, uint64_t now_ms)
{
	output_mask_give(k, m, l, stream, pipe_fd, now_ms, mask_flush);
}

static void output_mask_take(struct output_mask *k, const struct mask *m, struct output_log *l,
			     enum output_stream stream, int pipe_fd, const uint8_t *fresh, size_t n,
			     uint64_t now_ms)
{
	OWN_MEM uint8_t *out = malloc(n + output_mask_held(k));

	assert(out != NULL);
	k->stream.most = HOLD_MAX;
	n = mask_feed(m, &k->stream, fresh, n, out);
	output_log_put(l, stream, pipe_fd, out, n, now_ms);
}

int output_mask_move(struct output_mask *k, const struct mask *m, struct output_log *l,
		     enum output_stream stream, int pipe_fd, size_t most, uint64_t now_ms,
		     struct err *e)
{
	size_t held = output_mask_held(k), turn;
	static uint8_t seen[PEEK_MAX];
	int there = 0;
	ssize_t n;

	if (ioctl(pipe_fd, FIONREAD, &there) < 0)
		return err_sys(e, "output of %s", l->name);
	if ((size_t)there <= held)
		return 0;
	turn = output_log_turn(l, there);
	if (turn == 0)
		return 1;
	if (turn <= held || turn > PEEK_MAX)
		turn = PEEK_MAX;
	n = pipe_io_peek(pipe_fd, seen, turn - held < most ? turn : held + most);
	if (n < 0)
		return 0;
	if ((size_t)n <= held)
		output_mask_flush(k, m, l, stream, pipe_fd, now_ms);
	else
		output_mask_take(k, m, l, stream, pipe_fd, seen + held, (size_t)n - held, now_ms);
	explicit_bzero(seen, (size_t)n);
	return 1;
}
