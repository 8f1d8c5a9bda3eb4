/* execution_io.c - an execution's streams: its output into the log, its input from clients.
 *
 * The pipes come from the cell. PID 1 holds the same open files and could make them block at any
 * time, so nothing here relies on O_NONBLOCK: bytes move by splice(2) with SPLICE_F_NONBLOCK.
 *
 * With a mask (output_mask.h) the last bytes stay in the pipe for one or two ticks (MASK_TICK_MS),
 * whatever their content. Such a pipe is readable all the time, so it is watched edge-triggered
 * (EPOLLET), and fewer than BULK new bytes wait for the next tick: the cost of peeking at a pipe is
 * in proportion to all its bytes, not to the new ones. All executions of a session share a bound on
 * the bytes masked in one turn of the loop. The rest stays in the pipes for the next turn.
 */
#include "daemon/execution/execution_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_calls.h"
#include "daemon/node/core.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output_log.h"
#include "daemon/output/output_mask.h"
#include "daemon/output/pipe_io.h"
#include "daemon/session/session.h"
#include "daemon/tenant/record_quota.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#define BULK 4096

static void close_out(struct execution *x, int i)
{
	session_mask_covered(x->session, x->mask[i].stream.places);
	x->mask[i].stream.places = 0;
	core_metrics_redacted(x->mask[i].stream.counts, MASK_COUNTS);
	for (unsigned k = 0; k < MASK_COUNTS; k++) {
		x->redacted[k] += x->mask[i].stream.counts[k];
		x->mask[i].stream.counts[k] = 0;
	}
	output_mask_release(&x->mask[i]);
	loop_remove(x->session->core->loop, &x->watch_out[i]);
	io_close_all(&x->out[i], 1);
}

static void close_in(struct execution *x)
{
	loop_remove(x->session->core->loop, &x->watch_in);
	io_close_all(&x->in, 1);
}

/* Without the timer no tick finds a closed descriptor. */
void execution_close_fds(struct execution *x)
{
	loop_timer_cancel(x->session->core->loop, &x->hold_timer);
	close_in(x);
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		close_out(x, i);
}

/* Has the stream ended: are all writers gone, and is the pipe empty? */
static bool is_over(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLIN | POLLHUP)) == POLLHUP;
}

static enum output_stream stream_of(int i)
{
	return output_stream_at((unsigned)i);
}

/* ---- masks */

/* Bytes in the pipe that the mask has not seen. */
static size_t fresh_bytes(const struct execution *x, int i)
{
	size_t held = output_mask_held(&x->mask[i]);
	int there = 0;

	if (ioctl(x->out[i], FIONREAD, &there) < 0 || (size_t)there <= held)
		return 0;
	return (size_t)there - held;
}

/* Move bytes that a mask holds back: those past their wait, or all. */
static void move_held(struct execution *x, int i, bool all)
{
	const struct mask *m = session_mask(x->session);
	uint64_t before = x->log.size;

	if (x->out[i] < 0 || output_mask_held(&x->mask[i]) == 0)
		return;
	if (m == NULL) { /* the mask was removed, and the bytes are still in the pipe */
		output_mask_release(&x->mask[i]);
		return;
	}
	output_quota_make(x, output_log_need(&x->log, x->out[i]), false);
	(all ? output_mask_flush : output_mask_tick)(&x->mask[i], m, &x->log, stream_of(i),
						     x->out[i], core_now_ms());
	output_quota_count(x, before);
	execution_notify(x);
}

/* Charge the moved bytes to the session's allowance for this turn. 1: something is left for the
 * next turn. */
static int move_masked(struct execution *x, int i, const struct mask *m, struct err *e)
{
	size_t *left = session_mask_turn(x->session, m), fresh = fresh_bytes(x, i), after;
	int got;

	if (fresh > 0 && *left == 0)
		return 1;
	got = output_mask_move(&x->mask[i], m, &x->log, stream_of(i), x->out[i], *left,
			       core_now_ms(), e);
	after = fresh_bytes(x, i);
	fresh = after < fresh ? fresh - after : 0;
	*left -= fresh < *left ? fresh : *left;
	return got;
}

/* A removed mask leaves held bytes in the pipe, which then move unmasked. */
static int move_some(struct execution *x, int i, struct err *e)
{
	const struct mask *m = session_mask(x->session);

	if (m != NULL)
		return move_masked(x, i, m, e);
	output_mask_release(&x->mask[i]);
	return output_log_move(&x->log, stream_of(i), x->out[i], core_now_ms(), e);
}

/* Is the pipe without a writer? */
static bool is_hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

/* Move the bytes in the pipe into the log. can_wait: bytes for which there may be room later stay
 * in the pipe, else they are dropped. True at the end of the stream. */
static bool move_out(struct execution *x, int i, bool can_wait)
{
	uint64_t before = x->log.size;
	struct err e;
	int got;

	output_quota_make(x, output_log_need(&x->log, x->out[i]), !x->draining);
	x->log.wait_for_room = x->log.wait_for_room && can_wait;
	got = move_some(x, i, &e);
	output_quota_count(x, before);
	if (got < 0) {
		log_warn("output of an execution lost", "execution_id=%s error=%s", x->row.id,
			 e.msg);
		return true;
	}
	if (got > 0)
		execution_notify(x);
	if (got > 0 && !(output_mask_held(&x->mask[i]) > 0 && fresh_bytes(x, i) == 0))
		return false;
	if (output_mask_held(&x->mask[i]) > 0 && is_hung_up(x->out[i]))
		move_held(x, i, true);
	return is_over(x->out[i]);
}

/* Has the mask not seen so few bytes that they can wait for the next tick? */
static bool is_little(const struct execution *x, int i)
{
	return session_mask(x->session) != NULL && fresh_bytes(x, i) < BULK &&
	       !is_hung_up(x->out[i]);
}

/* Set how the pipe is watched while bytes stay in it, and the timer of the next tick. */
static void watch_held(struct execution *x, int i)
{
	struct loop *l = x->session->core->loop;

	if (x->out[i] < 0 || x->watch_out[i].fd < 0)
		return;
	loop_modify(l, &x->watch_out[i], is_little(x, i) ? EPOLLIN | (uint32_t)EPOLLET : EPOLLIN);
	if (x->hold_timer.place == 0 && session_mask(x->session) != NULL &&
	    output_mask_held(&x->mask[i]) + fresh_bytes(x, i) > 0)
		loop_timer_set(l, &x->hold_timer, loop_now_ns(l) + MASK_TICK_MS * CLOCK_MS);
}

/* Edge-triggered wakeups of a few bytes are left to the tick. */
static void on_output(struct loop_fd *f, uint32_t events)
{
	struct execution *x = f->arg;
	int i = (int)(f - x->watch_out);

	if (is_little(x, i) || !move_out(x, i, true)) {
		watch_held(x, i);
		return;
	}
	close_out(x, i);
	execution_notify(x);
	execution_maybe_complete(x);
}

static void on_tick(struct loop_timer *t)
{
	struct execution *x = t->arg;
	bool over = false;

	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		if (x->out[i] >= 0 && fresh_bytes(x, i) > 0 && move_out(x, i, true)) {
			close_out(x, i);
			over = true;
		}
		move_held(x, i, false);
		watch_held(x, i);
	}
	if (over) {
		execution_notify(x);
		execution_maybe_complete(x);
	}
}

/* Complete or remove a record that an earlier daemon left open, before another one is written. */
static void io_settle(struct execution *x)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		uint64_t before = x->log.size;

		output_log_settle(&x->log, stream_of(i), x->out[i]);
		output_quota_count(x, before);
	}
}

/* ---- at its end: the bytes in the pipes then belong to the execution */

#define ROUNDS 64		/* moves in one turn of the loop */
#define PIECES_WAITED 64	/* pieces for which a log may wait for room */
#define LAST_BYTES (512U << 10) /* masked in one turn for executions whose pipes are closed */

/* Remember how much output belongs to the execution itself: children may write more after it. */
static void note_due(struct execution *x)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		int there = 0;

		if (x->out[i] >= 0 && is_over(x->out[i]))
			close_out(x, i);
		if (x->out[i] < 0 || ioctl(x->out[i], FIONREAD, &there) < 0)
			there = 0;
		x->due[i] = x->log.written[i] + (uint64_t)there;
	}
}

static bool is_due(const struct execution *x, int i)
{
	return x->out[i] >= 0 && x->log.written[i] < x->due[i];
}

/* Move the due bytes, as far as this turn allows. True when all of them have moved. */
static bool drain_some(struct execution *x, bool can_wait)
{
	x->draining = true;
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		for (int rounds = ROUNDS; is_due(x, i) && rounds > 0; rounds--) {
			uint64_t before = x->log.written[i];
			bool over = move_out(x, i, can_wait);

			if (!over && fresh_bytes(x, i) == 0)
				move_held(x, i, true);
			if (over)
				close_out(x, i);
			else if (x->log.written[i] == before)
				break;
		}
	x->draining = false;
	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		if (x->out[i] >= 0 && is_over(x->out[i]))
			close_out(x, i);
		watch_held(x, i);
	}
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (is_due(x, i))
			return false;
	return true;
}

/* A log may wait for room only PIECES_WAITED times. Then the rest is dropped, or one tenant's full
 * quota would delay the exit forever. */
static bool on_drain_piece(struct job *j)
{
	struct execution *x = j->arg;

	if (!drain_some(x, ++x->drain_pieces < PIECES_WAITED))
		return true;
	execution_exited(x);
	return false;
}

/* Call execution_exited() from here if little is left to move, else when a job of the tenant has
 * moved it. Bytes that the program's children write later are not waited for. */
void execution_drain(struct execution *x)
{
	io_settle(x);
	note_due(x);
	if (drain_some(x, true)) {
		execution_exited(x);
		return;
	}
	x->drain = (struct job){ .on_piece = on_drain_piece, .arg = x };
	core_job_add(x->session->core, x->session->tenant, &x->drain);
}

/* Move the last bytes: the pipes are about to be closed. Masking takes time, and many executions
 * can end in one turn, with their session or with several. If this turn has no time for some bytes,
 * they are dropped, and the log is marked as cut. */
void execution_drain_last(struct execution *x)
{
	struct core *c = x->session->core;
	uint64_t now = loop_now_ns(c->loop);
	size_t before;

	core_job_cancel(c, &x->drain);
	io_settle(x);
	note_due(x);
	if (c->last_turn.at_ns != now) {
		c->last_turn.at_ns = now;
		c->last_turn.left = LAST_BYTES;
	}
	before = c->last_turn.left;
	x->session->output.turn.at_ns = now;
	x->session->output.turn.left = before;
	(void)drain_some(x, false);
	c->last_turn.left -= before - x->session->output.turn.left;
	x->session->output.turn.left = 0;
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (is_due(x, i))
			output_log_drop(&x->log, stream_of(i), x->due[i] - x->log.written[i],
					core_now_ms());
}

/* The execution ended under an earlier daemon. Its children may still run. */
void execution_catch_up(struct execution *x)
{
	note_due(x);
	(void)drain_some(x, true);
}

/* The pipe has room, or its reader is gone. */
static void on_room(struct loop_fd *f, uint32_t events)
{
	struct execution *x = f->arg;
	struct err e;

	if ((events & EPOLLERR) != 0) { /* the pipe has no reader any more */
		close_in(x);
		x->stdin_open = false;
		(void)err_set(&e, ERR_CONFLICT, "execution %s has closed its input", x->row.id);
		completions_end_all(&x->when_room, &e);
		return;
	}
	loop_modify(x->session->core->loop, f, 0);
	completions_end_all(&x->when_room, NULL);
}

/* Called more than once in some orders of events, so `owed` says whether anything is reserved. */
void execution_fds_settled(struct execution *x)
{
	if (x->owed)
		x->session->core->cells.fds.owed -= FD_BUDGET_EACH;
	x->owed = false;
}

/* Output is watched from the start, input only while a writer waits for room. */
static int watch_all(struct execution *x, struct err *e)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (x->out[i] >= 0 &&
		    loop_add(x->session->core->loop, &x->watch_out[i], x->out[i], EPOLLIN, e) < 0)
			return -1;
	return 0;
}

/* The order of fds is fixed: standard input, if there is one, then the output streams. */
int execution_take_fds(struct execution *x, const struct agent_event *v, const int *fds, unsigned n,
		       struct err *e)
{
	struct loop *l = x->session->core->loop;
	unsigned at = 0;

	execution_fds_settled(x);
	if ((v->flags & AGENT_HAS_STDIN) != 0 && at < n)
		x->in = fds[at++];
	for (int i = 0; i < OUTPUT_STREAMS && at < n; i++)
		x->out[i] = fds[at++];
	x->hold_timer = (struct loop_timer){ .on_expire = on_tick, .arg = x };
	io_settle(x);
	x->watch_in = (struct loop_fd){ .fd = -1, .on_ready = on_room, .arg = x };
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		x->watch_out[i] = (struct loop_fd){ .fd = -1, .on_ready = on_output, .arg = x };
	if ((x->in >= 0 && loop_add(l, &x->watch_in, x->in, 0, e) < 0) || watch_all(x, e) < 0) {
		execution_close_fds(x);
		return -1;
	}
	if (x->close_wanted)
		execution_close_input(x);
	return 0;
}

bool execution_output_open(const struct execution *x)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (x->out[i] >= 0)
			return true;
	return false;
}

/* An execution is complete when it has ended, its output has ended, its record is written and,
 * after a timeout, nothing of it runs. PID 1 is then asked to forget it. */
void execution_maybe_complete(struct execution *x)
{
	struct err e;

	if (x->complete || !x->ended || x->unsaved || x->killing || x->leftovers ||
	    execution_output_open(x))
		return;
	x->complete = true;
	close_in(x);
	if (x->row.output_open) { /* children wrote more after the outcome was recorded */
		x->row.output_open = false;
		execution_count_out(x);
		IGNORED(store_execution_update(x->session->core->store, &x->row, &e),
			"the log itself is complete");
	}
	x->forget_due = true;
	execution_notify(x);
}

#define INPUT_MAX 4096 /* recorded of one write */

static void io_note(struct execution *x, enum output_stream stream, const void *bytes, size_t n)
{
	uint64_t before = x->log.size;

	output_quota_make(x, 0, false);
	output_log_note(&x->log, stream, bytes, n, core_now_ms());
	output_quota_count(x, before);
}

void execution_note_size(struct execution *x, uint16_t rows, uint16_t cols)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%ux%u", cols, rows);

	io_note(x, OUTPUT_SIZE, text, (size_t)n);
}

/* Values of secrets are covered where one write has all of them. A longer write is recorded by its
 * beginning. */
static void note_input(struct execution *x, const uint8_t *data, size_t n)
{
	const struct mask *m = session_mask(x->session);
	size_t keep = n < INPUT_MAX ? n : INPUT_MAX;
	size_t look = m == NULL ? keep : keep + mask_reach(m);
	OWN_MEM uint8_t *copy = NULL;

	if (look > n)
		look = n;
	copy = malloc(look);
	if (copy == NULL)
		return;
	memcpy(copy, data, look);
	if (m != NULL)
		(void)mask_text(m, NULL, copy, look);
	io_note(x, OUTPUT_INPUT, copy, keep);
}

ssize_t execution_input(struct execution *x, const void *data, size_t len, struct completion *w,
			struct err *e)
{
	ssize_t n;

	if (x->ended || !x->stdin_open)
		return err_set(e, ERR_CONFLICT, "execution %s has no open input", x->row.id);
	if (len == 0)
		return 0;
	if (x->in < 0) { /* the program does not run yet */
		if (w != NULL)
			completion_begin(w, x->session->core->loop, &x->when_room);
		return 0;
	}
	n = pipe_io_write(x->in, data, len);
	if (n < 0 && errno == EAGAIN)
		n = 0;
	if (n < 0) {
		bool closed = errno == EPIPE;

		IGNORED(err_sys(e, "input of execution %s", x->row.id), "returned, or replaced");
		close_in(x);
		x->stdin_open = false;
		return closed ? err_set(e, ERR_CONFLICT, "execution %s has closed its input",
					x->row.id)
			      : -1;
	}
	if (n > 0 && x->row.record_input)
		note_input(x, data, (size_t)n);
	if (n == 0 && w != NULL) {
		completion_begin(w, x->session->core->loop, &x->when_room);
		loop_modify(x->session->core->loop, &x->watch_in, EPOLLOUT);
	}
	return n;
}

/* PID 1 has the input open, too. */
void execution_send_close(struct execution *x)
{
	struct live_cell *c = x->session->cell;
	struct err e;

	x->close_due = !x->ended && c != NULL && c->connected;
	if (!x->close_due || agent_send_close_stdin(&c->agent, x->program.handle, &e) < 0)
		return; /* if it is due, it is sent again in a second */
	x->close_due = false;
	live_cell_flush(c);
}

/* A close before the program runs is remembered, because the descriptor has not come yet. */
void execution_close_input(struct execution *x)
{
	if (x->ended || x->row.tty)
		return; /* a terminal's input ends with a character that the client sends */
	if (x->in < 0 && x->stdin_open && x->pid == 0) {
		x->close_wanted = true;
		return;
	}
	close_in(x);
	x->stdin_open = false;
	execution_send_close(x);
}
