/* pool_boot.c - see pool_boot.h. As session_boot.c does it for a session: the start command first,
 * then the ready command again and again until it succeeds. */
#include "daemon/template/pool_boot.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "daemon/cells/live_cell.h"
#include "daemon/cells/pool.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_adopt.h"
#include "daemon/output/pipe_io.h"
#include "daemon/session/session.h"
#include "daemon/session/session_boot.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"

#define READY_MS 600000ULL
#define ANSWER_MS 10000ULL /* for PID 1 */
#define FULL_BYTES 49152   /* in a pipe, which holds 64 KiB */
#define KEPT_BYTES 32768   /* of the newest */
#define STRINGS_MAX ((size_t)2 << 20)

/* A program in the cell, and this daemon's ends of its pipes. */
struct boot_program {
	struct live_program program;
	struct pool_boot *boot;
	bool known;   /* PID 1 was asked for it */
	bool running; /* its pipes have come */
	int fds[3];   /* owned: stdin, stdout, stderr. -1: none */
	struct loop_fd watch[3];
};

struct pool_boot {
	struct template_version *version;
	const struct store_session *like;
	struct pool *pool;
	struct live_cell *cell;
	struct boot_program start, ready;
	struct agent_event started; /* of the start command, and how it ended */
	struct loop_timer retry;
	struct loop_timer late; /* PID 1 has not said what became of a program */
	unsigned tries;
	uint64_t until_ns;
	bool plain_shell; /* there is no bash */
};

bool pool_boot_is_needed(const struct store_template *t)
{
	return (t->start_command != NULL && t->start_command[0] != '\0') ||
	       (t->ready_command != NULL && t->ready_command[0] != '\0');
}

/* ---- pipes */

/* Forget a program of the cell. Its process is not killed. */
static void close_program(struct boot_program *p)
{
	struct pool_boot *b = p->boot;

	for (int i = 0; i < 3; i++) {
		loop_remove(b->version->core->loop, &p->watch[i]);
		io_close_all(&p->fds[i], 1);
	}
	if (p->known)
		live_cell_remove(b->cell, &p->program);
	p->known = p->running = false;
}

/* New bytes in a pipe without a reader so far: drop the oldest before it is full. */
static void on_output(struct loop_fd *f, uint32_t events)
{
	int there = 0;

	if (ioctl(f->fd, FIONREAD, &there) == 0 && there > FULL_BYTES)
		(void)pipe_io_drop(f->fd, (size_t)there - KEPT_BYTES);
	else if ((events & (EPOLLHUP | EPOLLERR)) != 0) /* reported as long as it is watched */
		loop_remove(((struct boot_program *)f->arg)->boot->version->core->loop, f);
}

static int take_pipes(struct boot_program *p, struct live_cell *c, const struct agent_event *v,
		      struct err *e)
{
	p->running = true;
	agent_take_stdio(&c->agent, v, &p->fds[0], &p->fds[1], 2);
	for (int i = 1; i < 3; i++)
		if (p->fds[i] >= 0 && loop_add(p->boot->version->core->loop, &p->watch[i],
					       p->fds[i], EPOLLIN | (uint32_t)EPOLLET, e) < 0)
			return -1;
	return 0;
}

/* ---- programs */

/* Arguments, then the template's environment, each with its NUL. */
static void put_strings(const struct pool_boot *b, const char *command, struct buf *to)
{
	const char *args[] = { b->plain_shell ? "/bin/sh" : "/bin/bash", "-l", "-c", command };

	for (size_t i = 0; i < COUNT(args); i++)
		buf_put(to, args[i], strlen(args[i]) + 1);
	if (b->version->row.env_len > 0)
		buf_put(to, b->version->row.env, b->version->row.env_len);
}

static uint32_t count_strings(const char *at, size_t n)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += at[i] == '\0';
	return count;
}

static void expect_by(struct pool_boot *b, uint64_t at_ns)
{
	loop_timer_set(b->version->core->loop, &b->late, at_ns);
}

/* The answer is awaited for ANSWER_MS. on_late() gives the cell up then. */
static int pool_boot_spawn(struct boot_program *p, const char *command, uint32_t flags,
			   struct err *e)
{
	struct pool_boot *b = p->boot;
	const struct store_template *t = &b->version->row;
	struct buf strings = BUF_INIT(STRINGS_MAX);
	struct agent_spawn r = { .flags = flags,
				 .timeout_ms = (flags & AGENT_HOLD) != 0 ? 0 : READY_MS,
				 .nofile = b->like->limits.nofile,
				 .argc = 4,
				 .envc = count_strings(t->env, t->env_len),
				 .user = session_boot_user(t, b->like->profile),
				 .cwd = t->interpreter ? "/" : t->workdir };
	int sent;

	close_program(p); /* what is left of the one before */
	live_cell_add(b->cell, &p->program);
	p->known = true;
	r.handle = p->program.handle;
	put_strings(b, command, &strings);
	r.strings = buf_text(&strings);
	r.strings_len = strings.len;
	sent = buf_check(&strings, e);
	if (sent == 0)
		sent = agent_send_spawn(&b->cell->agent, &r, e);
	buf_release(&strings);
	if (sent == 0)
		live_cell_flush(b->cell);
	expect_by(b, clock_now_ns() + ANSWER_MS * CLOCK_MS);
	return sent;
}

/* The cell is dropped, and with it this boot. */
static void pool_boot_fail(struct pool_boot *b, const struct err *e)
{
	pool_prepared(b->pool, b->cell, e);
}

static void on_late(struct loop_timer *t)
{
	struct err e;

	IGNORED(err_set_reason(&e, REASON_TIMEOUT, "PID 1 does not answer"), "logged");
	pool_boot_fail(t->arg, &e);
}

static void pool_boot_succeed(struct pool_boot *b)
{
	loop_timer_cancel(b->version->core->loop, &b->retry);
	loop_timer_cancel(b->version->core->loop, &b->late);
	close_program(&b->ready);
	pool_prepared(b->pool, b->cell, NULL);
}

static void run_start(struct pool_boot *b)
{
	const struct store_template *t = &b->version->row;
	struct err e;

	if (pool_boot_spawn(&b->start, t->start_command,
			    AGENT_HOLD | (t->interpreter ? 0 : (uint32_t)AGENT_NO_STDIN), &e) < 0)
		pool_boot_fail(b, &e);
}

static void pool_boot_look(struct pool_boot *b)
{
	struct err e;

	if (b->version->row.ready_command[0] == '\0')
		pool_boot_succeed(b);
	else if (pool_boot_spawn(&b->ready, b->version->row.ready_command, AGENT_NO_STDIN, &e) < 0)
		pool_boot_fail(b, &e);
}

static void on_retry(struct loop_timer *t)
{
	pool_boot_look(t->arg);
}

/* ---- events */

static bool has_no_shell(struct pool_boot *b, const struct agent_event *v)
{
	if (v->stage != AGENT_AT_EXEC || v->sys != ENOENT || b->plain_shell)
		return false;
	b->plain_shell = true;
	return true;
}

/* A missing bash leads to one more attempt with /bin/sh. */
static void on_not_started(struct boot_program *p, const struct agent_event *v)
{
	struct pool_boot *b = p->boot;
	bool is_start = p == &b->start;
	struct err e;

	if (is_start && agent_send_forget(&b->cell->agent, p->program.handle, &e) == 0)
		live_cell_flush(b->cell);
	close_program(p);
	if (has_no_shell(b, v)) {
		(is_start ? run_start : pool_boot_look)(b);
		return;
	}
	errno = v->sys;
	IGNORED(err_sys(&e, "%s command could not be started", is_start ? "start" : "ready"),
		"logged");
	pool_boot_fail(b, &e);
}

/* A start command may end by itself when all is set up. */
static void on_start_ended(struct pool_boot *b, const struct agent_event *v)
{
	struct err e;

	if (v->exit_code == 0 && v->signal == 0 && !b->version->row.start_restart) {
		uint64_t mark = b->started.mark;
		uint32_t flags = b->started.flags, pid = b->started.pid;

		b->started = *v;
		b->started.mark = mark;
		b->started.pid = pid;
		b->started.flags = flags | AGENT_HAS_EXITED;
		return;
	}
	IGNORED(err_set(&e, ERR_CONFLICT, "start command ended: exit status %u, signal %u",
			v->exit_code, v->signal),
		"logged");
	pool_boot_fail(b, &e);
}

static void on_ready_ended(struct pool_boot *b, const struct agent_event *v)
{
	struct err e;

	loop_timer_cancel(b->version->core->loop, &b->late);
	close_program(&b->ready);
	if (v->exit_code == 0 && v->signal == 0) {
		pool_boot_succeed(b);
		return;
	}
	if (clock_now_ns() > b->until_ns) {
		IGNORED(err_set(&e, ERR_CONFLICT, "ready command failed: exit status %u",
				v->exit_code),
			"logged");
		pool_boot_fail(b, &e);
		return;
	}
	loop_timer_set(b->version->core->loop, &b->retry,
		       clock_now_ns() + session_boot_rest_ms(b->tries++) * CLOCK_MS);
}

/* Events of PID 1 about one of the two commands. */
static void on_program(struct live_program *lp, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	struct boot_program *p =
		(struct boot_program *)((uintptr_t)lp - offsetof(struct boot_program, program));
	struct pool_boot *b = p->boot;
	struct err e;

	if (type == AGENT_STARTED && p->running)
		return; /* PID 1 reported it twice */
	if (type == AGENT_STARTED && take_pipes(p, c, v, &e) < 0) {
		pool_boot_fail(b, &e);
	} else if (type == AGENT_STARTED && p == &b->start) {
		b->started = *v;
		pool_boot_look(b);
	} else if (type == AGENT_STARTED) { /* PID 1 ends it after READY_MS */
		expect_by(b, clock_now_ns() + (READY_MS + ANSWER_MS) * CLOCK_MS);
	} else if (type == AGENT_FAILED) {
		on_not_started(p, v);
	} else if (type == AGENT_EXITED) {
		(p == &b->start ? on_start_ended : on_ready_ended)(b, v);
	}
}

/* ---- for the pool */

static void init_program(struct pool_boot *b, struct boot_program *p)
{
	p->boot = b;
	p->program.on_event = on_program;
	for (int i = 0; i < 3; i++) {
		p->fds[i] = -1;
		p->watch[i] = (struct loop_fd){ .fd = -1, .on_ready = on_output, .arg = p };
	}
}

void pool_boot_prepare(void *arg, struct pool *p, struct live_cell *c)
{
	const struct level_pool *of = arg;
	struct pool_boot *b = calloc(1, sizeof(*b));

	assert(b != NULL);
	b->version = of->version;
	b->like = &of->like;
	b->pool = p;
	b->cell = c;
	b->until_ns = clock_now_ns() + READY_MS * CLOCK_MS;
	b->retry = (struct loop_timer){ .on_expire = on_retry, .arg = b };
	b->late = (struct loop_timer){ .on_expire = on_late, .arg = b };
	init_program(b, &b->start);
	init_program(b, &b->ready);
	c->prepared = b;
	if (b->version->row.start_command[0] != '\0')
		run_start(b);
	else
		pool_boot_look(b);
}

void pool_boot_unprepare(void *arg, struct live_cell *c)
{
	struct pool_boot *b = c->prepared;

	if (b == NULL)
		return;
	c->prepared = NULL;
	loop_timer_cancel(b->version->core->loop, &b->retry);
	loop_timer_cancel(b->version->core->loop, &b->late);
	close_program(&b->start);
	close_program(&b->ready);
	free(b);
}

/* ---- for the session that gets the cell */

int pool_boot_record(struct session *s, struct execution **ret, struct err *e)
{
	const struct pool_boot *b = s->cell->prepared;
	struct execution_spec spec = {
		.keep_text = true,
		.kind = session_boot_kind(session_template(s)),
		.text = session_template(s)->start_command,
		.user = session_boot_user(session_template(s), s->row.profile),
		.client = session_template(s)->interpreter ? SESSION_BOOT_ENV_OWED : NULL,
		.actor = &s->actor
	};

	*ret = NULL;
	if (b == NULL || !b->start.running)
		return 0;
	*ret = execution_claim(s, &spec, b->start.program.handle, b->started.mark, e);
	return *ret == NULL ? -1 : 0;
}

void pool_boot_hand_over(struct session *s, struct execution *x)
{
	struct pool_boot *b = s->cell->prepared;
	struct agent_event v;
	int fds[3];
	unsigned n = 0;

	if (b == NULL)
		return;
	v = b->started;
	for (int i = 0; i < 3; i++) {
		loop_remove(s->core->loop, &b->start.watch[i]);
		if (b->start.fds[i] >= 0)
			fds[n++] = b->start.fds[i];
		b->start.fds[i] = -1;
	}
	v.handle = b->start.program.handle;
	pool_boot_unprepare(NULL, s->cell);
	if (x != NULL)
		execution_claimed(x, &v, fds, n);
}
