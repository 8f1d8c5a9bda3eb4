#include "programs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "io.h"
#include "tree_mark.h"
#include "spawn.h"
#include "spawn_shared.h"

static struct program programs[AGENT_PROGRAMS_MAX];
static unsigned nprograms; /* slots at or above this were never used */

struct program *programs_next(const struct program *p)
{
	for (size_t i = p == NULL ? 0 : (size_t)(p - programs) + 1; i < nprograms; i++)
		if (programs[i].used)
			return &programs[i];
	return NULL;
}

struct program *programs_find(uint32_t handle)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->handle == handle)
			return p;
	return NULL;
}

static struct program *free_slot(void)
{
	for (unsigned i = 0; i < nprograms; i++)
		if (!programs[i].used)
			return &programs[i];
	return nprograms < AGENT_PROGRAMS_MAX ? &programs[nprograms++] : NULL;
}

static uint64_t deadline(uint64_t timeout_ms)
{
	/* A longer timeout counts as none; the sum could overflow. */
	if (timeout_ms == 0 || timeout_ms > AGENT_TIME_MAX_MS)
		return 0;
	return clock_now_ns() + timeout_ms * CLOCK_MS;
}

bool programs_start(const struct agent_spawn *request, struct agent_event *ret_failed)
{
	struct program *p = programs_find(request->handle) == NULL ? free_slot() : NULL;
	struct spawn_failure fail = { AGENT_AT_SYSTEM, EAGAIN };
	uint64_t mark = tree_mark_next();
	struct spawn s;

	*ret_failed = (struct agent_event){ .handle = request->handle };
	if (p == NULL || spawn_start(request, mark, &s, &fail) < 0) {
		ret_failed->stage = fail.stage;
		ret_failed->sys = fail.sys;
		return false;
	}
	disk_usage_begin();
	*p = (struct program){ .used = true,
			       .held = (request->flags & AGENT_HOLD) != 0,
			       .tty = (request->flags & AGENT_TTY) != 0,
			       .handle = request->handle,
			       .mark = mark,
			       .deadline_ns = deadline(request->timeout_ms),
			       .pid = s.pid,
			       .error_fd = s.error_fd,
			       .disk_before = disk_usage_total };
	memcpy(p->stdio, s.stdio, sizeof(p->stdio));
	if (s.master >= 0)
		p->pump =
			pty_pump_new(s.master, s.output, s.input); /* if NULL, the PTY is closed */
	return true;
}

struct program *programs_add_leftover(uint32_t handle, uint64_t mark)
{
	struct program *p = free_slot();

	if (p != NULL)
		*p = (struct program){ .used = true,
				       .exited = true,
				       .leftover = true,
				       .handle = handle,
				       .mark = mark,
				       .error_fd = -1,
				       .stdio = { -1, -1, -1, -1 } };
	return p;
}

/* HELD has the state at the time when it is sent, so nothing else is sent with it. */
static void add_to_send(struct program *p, unsigned what)
{
	if ((p->to_send & PROGRAM_SEND_HELD) == 0)
		p->to_send |= what;
}

void programs_on_started(struct program *p)
{
	struct spawn_failure f;
	ssize_t n = read(p->error_fd, &f, sizeof(f));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	io_close_all(&p->error_fd, 1);
	if (n != (ssize_t)sizeof(f)) {
		spawn_shared_end(p->pid);
		add_to_send(p, PROGRAM_SEND_STARTED);
		return;
	}
	/* EXITED is not sent for it. */
	p->exited = p->failed = true;
	p->end = (struct agent_event){ .handle = p->handle, .stage = f.stage, .sys = f.sys };
	p->to_send = PROGRAM_SEND_FAILED;
}

uint32_t (*programs_limits_hit)(bool more);

void programs_usage(struct agent_event *v)
{
	struct rusage u;

	(void)getrusage(RUSAGE_CHILDREN, &u);
	v->cpu_us = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
		    (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	v->maxrss_bytes = (uint64_t)u.ru_maxrss * 1024;
	disk_usage_sample();
	v->disk_full = disk_usage_total.full;
	v->inodes_full = disk_usage_total.inodes_full;
}

/* What one held program used: the process and the children that it waited for. */
static void own_usage(const struct program *p, struct agent_event *v, const struct rusage *u)
{
	v->cpu_us = (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
		    (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
	v->maxrss_bytes = (uint64_t)u->ru_maxrss * 1024;
	disk_usage_sample();
	v->disk_full = disk_usage_total.filled - p->disk_before.filled;
	v->inodes_full = disk_usage_total.inodes_filled - p->disk_before.inodes_filled;
	if (v->exit_code == 0 && v->signal == 0)
		return; /* it ended well on a disk that was full before, as one that frees it does
			 */
	v->disk_full = disk_usage_total.full - p->disk_before.full;
	v->inodes_full = disk_usage_total.inodes_full - p->disk_before.inodes_full;
}

void programs_on_exit(pid_t pid, int status, const struct rusage *u)
{
	struct program *p = NULL;
	bool more;

	spawn_shared_end(pid);
	if (spawn_guest != NULL)
		spawn_guest->on_exit(pid);
	do
		p = programs_next(p);
	while (p != NULL && (p->pid != pid || p->exited));
	if (p == NULL)
		return;
	if (p->error_fd >= 0)
		programs_on_started(p); /* it is dead, so the pipe has data or its end */
	if (p->exited)
		return;
	p->exited = true;
	p->ended_ns = clock_now_ns();
	p->end = (struct agent_event){ .handle = p->handle,
				       .pid = (uint32_t)pid,
				       .timed_out = p->timed_out };
	if (WIFSIGNALED(status))
		p->end.signal = (uint32_t)WTERMSIG(status);
	else
		p->end.exit_code = (uint32_t)WEXITSTATUS(status);
	if (p->held)
		own_usage(p, &p->end, u);
	else
		programs_usage(&p->end);
	/* One that ends well does not take from others what may have ended them. */
	more = programs_running() > 0;
	if (programs_limits_hit != NULL && (status != 0 || !more))
		p->end.flags = programs_limits_hit(more);
	add_to_send(p, PROGRAM_SEND_EXITED);
}

unsigned programs_running(void)
{
	unsigned n = 0;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		n += !p->exited;
	return n;
}

void programs_forget(struct program *p)
{
	io_close_all(&p->error_fd, 1);
	io_close_all(p->stdio, SPAWN_STDIO);
	pty_pump_free(p->pump);
	p->pump = NULL;
	p->used = false;
}

void programs_close_stdin(struct program *p)
{
	if (p->held)
		io_close_all(&p->stdio[0], 1);
}

void programs_on_input_end(uint64_t pipe)
{
	struct stat st;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->stdio[0] >= 0 && fstat(p->stdio[0], &st) == 0 && st.st_ino == pipe)
			programs_close_stdin(p);
}

void programs_on_disconnect(void)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		if (p->leftover && p->kill_end_ns != 0) { /* the kill is completed */
			p->report_tree = false;
			continue;
		}
		if (!p->held) {
			if (!p->exited) {
				(void)kill(-p->pid, SIGKILL);
				(void)kill(p->pid, SIGKILL); /* not yet its group's leader */
			}
			programs_forget(p);
			continue;
		}
		p->report_tree = false;
		p->to_send = p->failed ? PROGRAM_SEND_FAILED : PROGRAM_SEND_HELD;
	}
}

static uint64_t put_off(uint64_t end_ns, uint64_t ms)
{
	/* A later time is not moved: the sum could overflow. */
	return end_ns == 0 || end_ns > UINT64_MAX / 2 ? end_ns : end_ns + ms * CLOCK_MS;
}

void programs_delay_deadlines(uint64_t ms)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		p->deadline_ns = put_off(p->deadline_ns, ms);
		p->kill_end_ns = put_off(p->kill_end_ns, ms);
	}
}
