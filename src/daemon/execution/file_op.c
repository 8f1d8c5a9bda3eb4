/* file_op.c - theory of operation
 *
 * PID 1 is asked to start a built-in and sends its descriptors. Bytes are read from and written to
 * them directly. PID 1 reports when the built-in has exited. An operation ends once, by a
 * completion: before the callback it is removed from its session, its cell and the loop, so the
 * callback may stop the session. It also ends if PID 1 does not start it within ANSWER_MS, or does
 * not report its exit within ANSWER_MS after the end of its output. That time does not count while
 * the session is paused.
 */
#include "daemon/execution/file_op.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/cells/live_cell.h"
#include "daemon/node/core_private.h"
#include "daemon/output/pipe_io.h"
#include "daemon/session/session_save.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/str.h"
#include "lib/wire/exit_codes.h"

#define ARGS_MAX 160
#define STRINGS_MAX 65536
#define BUFFER 65536
#define TURN_READS 16	       /* buffers read in one turn of the loop: the writer may be faster */
#define PIPE_BYTES (256 << 10) /* once many bytes pass through */
#define OP_TIMEOUT_MS 3600000  /* for the whole operation, slow clients included */
#define ANSWER_MS 10000	       /* for PID 1 */

struct file_op {
	struct file_op *next, **link; /* list.h: of its session */
	struct session *session;      /* NULL: the session has ended, and on_end is due */
	struct live_program program;
	const struct file_op_events *events;
	void *arg;
	int in, out, errors; /* owned */
	struct loop_fd watch_in, watch_out;
	bool started, exited, paused, failed;
	bool inside;		/* an operation of the server: file_op_start_inside() */
	bool wide_in, wide_out; /* their pipes */
	bool owed;		/* descriptors are reserved for it */
	int status;
	struct err err;
	uint8_t *held; /* owned: output read and not yet taken. NULL if none */
	size_t held_at, held_len;
	struct loop_task step;
	struct loop_timer answer; /* expires when the answer of PID 1 is late */
	struct completion end;
};

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v);
static void on_step(struct loop_task *t);
static void on_late(struct loop_timer *t);

void *file_op_arg(const struct file_op *op)
{
	return op->arg;
}

static struct loop *loop_of(const struct file_op *op)
{
	return op->session->core->loop;
}

/* End the reservation of its descriptors. */
static void settle_fds(struct file_op *op)
{
	if (op->owed)
		op->session->core->cells.fds.owed -= FD_BUDGET_EACH;
	op->owed = false;
}

/* Remove the operation from its session, its cell and the loop. Repeatable. */
static void file_op_detach(struct file_op *op)
{
	struct session *s = op->session;

	if (s == NULL)
		return;
	LIST_REMOVE(op);
	settle_fds(op);
	live_cell_remove(s->cell, &op->program);
	loop_task_cancel(loop_of(op), &op->step);
	loop_remove(loop_of(op), &op->watch_in);
	loop_remove(loop_of(op), &op->watch_out);
	loop_timer_cancel(loop_of(op), &op->answer);
	io_close_all(&op->in, 1);
	io_close_all(&op->out, 1);
	io_close_all(&op->errors, 1);
	session_touch(s);
	op->session = NULL;
}

static void file_op_release(struct file_op *op)
{
	file_op_detach(op);
	completion_cancel(&op->end);
	free(op->held);
	free(op);
}

/* The completion calls on_end once, and on_ended() frees the operation. */
static void file_op_end(struct file_op *op, const struct err *e)
{
	file_op_detach(op);
	completion_end(&op->end, e);
}

static void on_ended(struct completion *c, const struct err *e)
{
	struct file_op *op = c->arg;

	op->events->on_end(op, op->status, e);
	file_op_release(op);
}

static void expect_answer(struct file_op *op)
{
	loop_timer_set(loop_of(op), &op->answer, clock_now_ns() + ANSWER_MS * CLOCK_MS);
}

/* PID 1 kills a built-in by its handle. Without a connection the cell's end kills it. */
static void kill_it(struct file_op *op)
{
	struct live_cell *c = op->session == NULL ? NULL : op->session->cell;
	struct err e;

	if (!op->exited && c != NULL && c->connected &&
	    agent_send_signal(&c->agent, op->program.handle, SIGKILL, &e) == 0)
		live_cell_flush(c);
}

/* A paused session's PID 1 cannot answer, so the wait starts again. */
static void on_late(struct loop_timer *t)
{
	struct file_op *op = t->arg;
	struct err e;

	if (op->session->row.state != SESSION_RUNNING) {
		expect_answer(op);
		return;
	}
	(void)err_set_reason(&e, REASON_TIMEOUT, "session %s: PID 1 does not answer",
			     op->session->row.id);
	kill_it(op);
	file_op_end(op, &e);
}

/* Deferred to the loop: the caller of this file may be in the middle of its own change. */
static void file_op_fail(struct file_op *op, const struct err *e)
{
	op->failed = true;
	op->err = *e;
	loop_defer(loop_of(op), &op->step);
}

static void fail_sys(struct file_op *op)
{
	struct err e;

	(void)err_sys(&e, "file operation");
	file_op_fail(op, &e);
}

/* Enlarge the pipe, if the kernel allows it, so that its ends wait less for each other. */
static void file_op_widen(int fd, bool *done)
{
	if (!*done)
		(void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
	*done = true;
}

/* Pass on the held bytes, then the bytes in the pipe. The built-in is untrusted, but it can only
 * fill its pipe: the reads in one turn are bounded. True at the end of the output. */
static bool file_op_give(struct file_op *op)
{
	for (int reads = 0; !op->paused; reads++) {
		if (op->held_at < op->held_len) {
			size_t taken = op->events->on_output(op, op->held + op->held_at,
							     op->held_len - op->held_at);

			op->held_at += taken;
			if (op->held_at < op->held_len) {
				op->paused = true;
				return false;
			}
		}
		if (op->out < 0)
			return true;
		if (reads == TURN_READS) {
			op->held_at = op->held_len = 0;
			loop_defer(loop_of(op), &op->step);
			return false;
		}
		if (op->held == NULL)
			op->held = malloc(BUFFER);
		assert(op->held != NULL);
		ssize_t n = pipe_io_read(op->out, op->held, BUFFER);

		op->held_at = op->held_len = 0;
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (n < 0) { /* not the end: the output is incomplete */
			fail_sys(op);
			return false;
		}
		if (n == 0) {
			loop_remove(loop_of(op), &op->watch_out);
			io_close_all(&op->out, 1);
			if (!op->exited)
				expect_answer(op);
			return true;
		}
		op->held_len = (size_t)n;
		if (n == BUFFER)
			file_op_widen(op->out, &op->wide_out);
	}
	return false;
}

/* Wait for output, unless the reader has paused. A pipe after a hang-up is not watched any more
 * (on_readable()), but the cell may open its other end again. */
static void file_op_watch(struct file_op *op)
{
	struct err e;

	if (op->out < 0)
		return;
	if (op->watch_out.fd >= 0)
		loop_modify(loop_of(op), &op->watch_out, op->paused ? 0 : EPOLLIN);
	else if (!op->paused && loop_add(loop_of(op), &op->watch_out, op->out, EPOLLIN, &e) < 0)
		file_op_fail(op, &e);
}

/* From the loop only, so that no event comes from inside a call of the caller's. */
static void on_step(struct loop_task *t)
{
	struct file_op *op = t->arg;
	bool over;

	if (op->failed) {
		kill_it(op);
		file_op_end(op, &op->err);
		return;
	}
	over = file_op_give(op);
	if (over && op->exited) {
		file_op_end(op, NULL);
		return;
	}
	file_op_watch(op);
}

static void on_readable(struct loop_fd *f, uint32_t events)
{
	struct file_op *op = f->arg;

	/* A hang-up alone, while the reader is paused: nothing to do until it resumes. */
	if (op->paused && (events & EPOLLIN) == 0)
		loop_remove(loop_of(op), f);
	loop_defer(loop_of(op), &op->step);
}

static void on_writable(struct loop_fd *f, uint32_t events)
{
	struct file_op *op = f->arg;

	loop_modify(loop_of(op), f, 0);
	if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
		loop_remove(loop_of(op), f);
		io_close_all(&op->in, 1);
	}
	if (op->events->on_room != NULL)
		op->events->on_room(op);
}

/* PID 1 sends up to three descriptors. A second STARTED is ignored: PID 1 is untrusted. */
static void on_started(struct file_op *op, struct live_cell *c, const struct agent_event *v)
{
	int outs[2];
	struct err e;

	if (op->started)
		return;
	op->started = true;
	loop_timer_cancel(loop_of(op), &op->answer);
	settle_fds(op);
	agent_take_stdio(&c->agent, v, &op->in, outs, COUNT(outs));
	op->out = outs[0];
	op->errors = outs[1];
	if ((op->in >= 0 && loop_add(loop_of(op), &op->watch_in, op->in, EPOLLOUT, &e) < 0) ||
	    (op->out >= 0 && loop_add(loop_of(op), &op->watch_out, op->out, EPOLLIN, &e) < 0))
		file_op_fail(op, &e);
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	struct file_op *op = (struct file_op *)((char *)p - offsetof(struct file_op, program));
	struct err e;

	if (type == AGENT_STARTED) {
		on_started(op, c, v);
	} else if (type == AGENT_FAILED) {
		errno = v->sys;
		if (v->stage == AGENT_AT_USER)
			(void)err_set(&e, ERR_INVALID,
				      "user: there is none of that name in the session");
		else
			(void)err_sys(&e, "file operation");
		if (v->stage != AGENT_AT_USER)
			e.code = v->stage == AGENT_AT_CWD ? ERR_INVALID : ERR_LIMIT;
		file_op_fail(op, &e);
	} else if (type == AGENT_EXITED) {
		op->exited = true;
		op->status = v->signal != 0 ? EXIT_SIGNAL + (int)v->signal : (int)v->exit_code;
		loop_defer(loop_of(op), &op->step);
	}
}

/* SIZE_MAX marks an overflow, so that a chain of calls needs one check at its end. */
static size_t file_op_add(char *strings, size_t at, const char *text)
{
	size_t n = strlen(text) + 1;

	if (at == SIZE_MAX || at + n > STRINGS_MAX)
		return SIZE_MAX;
	memcpy(strings + at, text, n);
	return at + n;
}

/* Add "--within PREFIXES": the half of the session's rules ("writable\nexportable") that applies.
 */
static size_t add_rules(const struct session *s, bool write, char *strings, size_t at,
			uint32_t *argc)
{
	const char *rules = s->row.rules, *split = strchr(rules, '\n');
	char text[8192];
	size_t n = split == NULL ? strlen(rules) : (size_t)(split - rules);

	if (write)
		(void)snprintf(text, sizeof(text), "%.*s", (int)n, rules);
	else
		str_copy(text, split == NULL ? "" : split + 1);
	if (text[0] == '\0')
		return at;
	*argc += 2;
	return file_op_add(strings, file_op_add(strings, at, "--within"), text);
}

/* The time limit of the built-in. A watch has none: it lasts as long as its client. */
static uint64_t timeout_of(const char *const *argv, unsigned argc)
{
	unsigned name = argc > 2 && strncmp(argv[0], "--", 2) == 0 ? 2 : 0;

	return strcmp(argv[name], "watch") == 0 ? 0 : OP_TIMEOUT_MS;
}

/* Built-ins check paths themselves, below the prefixes given here. */
static int file_op_spawn(struct file_op *op, const char *user, const char *const *argv,
			 unsigned argc, bool write, struct err *e)
{
	struct session *s = op->session;
	const struct store_template *t = session_template(s);
	OWN_MEM char *strings = malloc(STRINGS_MAX);
	struct agent_spawn r = { .handle = op->program.handle,
				 .flags = AGENT_BUILTIN,
				 .timeout_ms = op->inside ? 0 : timeout_of(argv, argc),
				 .nofile = s->row.limits.nofile,
				 .user = user != NULL && user[0] != '\0' ? user
					 : t == NULL			 ? ""
									 : t->user,
				 .cwd = "" };
	size_t at = 0;

	assert(strings != NULL && argc > 0 && argc <= ARGS_MAX);
	r.argc = argc;
	if (!op->inside)
		at = add_rules(s, write, strings, at, &r.argc);
	for (unsigned i = 0; i < argc; i++)
		at = file_op_add(strings, at, argv[i]);
	if (at == SIZE_MAX)
		return err_set(e, ERR_LIMIT, "file operation: the arguments are too long");
	r.strings = strings;
	r.strings_len = at;
	if (agent_send_spawn(&s->cell->agent, &r, e) < 0)
		return -1;
	live_cell_flush(s->cell);
	return 0;
}

/* Make an operation that the session and the cell know, not started yet. */
static struct file_op *file_op_make(struct session *s, bool inside,
				    const struct file_op_events *events, void *arg, struct err *e)
{
	struct file_op *op;

	if (s->row.state != SESSION_RUNNING || s->cell == NULL || !s->cell->connected) {
		(void)err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			      session_shown_name(&s->row));
		return NULL;
	}
	if (fd_budget_check(&s->core->cells.fds, e) < 0)
		return NULL;
	op = calloc(1, sizeof(*op));
	assert(op != NULL);
	op->session = s;
	op->inside = inside;
	op->events = events;
	op->arg = arg;
	op->in = op->out = op->errors = -1;
	op->watch_in = (struct loop_fd){ .fd = -1, .on_ready = on_writable, .arg = op };
	op->watch_out = (struct loop_fd){ .fd = -1, .on_ready = on_readable, .arg = op };
	op->step = (struct loop_task){ .on_run = on_step, .arg = op };
	op->answer = (struct loop_timer){ .on_expire = on_late, .arg = op };
	op->end = (struct completion){ .on_done = on_ended, .arg = op };
	op->program.on_event = on_program;
	LIST_PUSH(&s->file_ops, op);
	live_cell_add(s->cell, &op->program);
	op->owed = true;
	s->core->cells.fds.owed += FD_BUDGET_EACH;
	return op;
}

static struct file_op *file_op_begin(struct file_op *op, const char *user, const char *const *argv,
				     unsigned argc, bool write, struct err *e)
{
	if (op == NULL)
		return NULL;
	if (file_op_spawn(op, user, argv, argc, write, e) < 0) {
		file_op_release(op);
		return NULL;
	}
	completion_begin(&op->end, loop_of(op), NULL);
	expect_answer(op);
	return op;
}

struct file_op *file_op_start(struct session *s, const char *user, const char *const *argv,
			      unsigned argc, bool write, const struct file_op_events *events,
			      void *arg, struct err *e)
{
	return file_op_begin(file_op_make(s, false, events, arg, e), user, argv, argc, write, e);
}

struct file_op *file_op_start_inside(struct session *s, const char *user, const char *const *argv,
				     unsigned argc, const struct file_op_events *events, void *arg,
				     struct err *e)
{
	return file_op_begin(file_op_make(s, true, events, arg, e), user, argv, argc, false, e);
}

bool file_op_is_busy(const struct session *s)
{
	for (const struct file_op *op = s->file_ops; op != NULL; op = op->next)
		if (!op->inside)
			return true;
	return false;
}

/* After an error the bytes count as taken: the built-in's output will report the cause. */
size_t file_op_input(struct file_op *op, const void *data, size_t len)
{
	ssize_t n;

	if (op->session == NULL)
		return len;
	if (op->in < 0)
		return op->started ? len : 0; /* it has closed its input: its output says why */
	n = pipe_io_write(op->in, data, len);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		loop_remove(loop_of(op), &op->watch_in);
		io_close_all(&op->in, 1);
		return len;
	}
	if (n >= 0 && n < (ssize_t)len && len >= BUFFER / 2)
		file_op_widen(op->in, &op->wide_in);
	if (n < (ssize_t)len)
		loop_modify(loop_of(op), &op->watch_in, EPOLLOUT);
	return n < 0 ? 0 : (size_t)n;
}

/* The built-in sees the end of file. */
void file_op_end_input(struct file_op *op)
{
	if (op->session == NULL)
		return;
	loop_remove(loop_of(op), &op->watch_in);
	io_close_all(&op->in, 1);
}

void file_op_resume(struct file_op *op)
{
	op->paused = false;
	if (op->session != NULL)
		loop_defer(loop_of(op), &op->step);
}

void file_op_cancel(struct file_op *op)
{
	kill_it(op);
	file_op_release(op);
}

void file_op_lost(struct file_op *op)
{
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s has ended", op->session->row.id);
	file_op_end(op, &e);
}
