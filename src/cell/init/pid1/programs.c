#include "cell/init/pid1/programs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cell/init/base/tree_mark.h"
#include "cell/init/pid1/spawn.h"
#include "cell/init/pid1/spawn_child.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"

void (*programs_limit_counts)(struct limit_counts *ret);
uint32_t (*programs_limits_hit)(const struct limit_counts *before, bool failed, bool more);

static struct program programs[AGENT_PROGRAMS_MAX];
static unsigned nprograms; /* slots at or above this were never used */

struct program *programs_next(const struct program *p)
{
	for (size_t i = p == NULL ? 0 : (size_t)(p - programs) + 1; i < nprograms; i++)
		if (programs[i].agent.used)
			return &programs[i];
	return NULL;
}

struct program *programs_find(uint32_t handle)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->agent.handle == handle)
			return p;
	return NULL;
}

static struct program *programs_free_slot(void)
{
	for (unsigned i = 0; i < nprograms; i++)
		if (!programs[i].agent.used)
			return &programs[i];
	return nprograms < AGENT_PROGRAMS_MAX ? &programs[nprograms++] : NULL;
}

bool programs_start(const struct agent_spawn *request, struct agent_event *ret_failed)
{
	struct program *p = programs_find(request->handle) == NULL ? programs_free_slot() : NULL;
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
	*p = (struct program){ .agent = { .used = true,
					  .starting = true,
					  .held = (request->flags & AGENT_HOLD) != 0,
					  .tty = (request->flags & AGENT_TTY) != 0,
					  .handle = request->handle,
					  .mark = mark,
					  .deadline_ns = agentd_deadline(request->timeout_ms),
					  .pid = s.pid },
			       .error_fd = s.error_fd,
			       .disk_before = disk_usage_total };
	if (programs_limit_counts != NULL)
		programs_limit_counts(&p->limits_before);
	memcpy(p->agent.stdio, s.stdio, sizeof(p->agent.stdio));
	if (s.master >= 0)
		p->pump =
			pty_pump_new(s.master, s.output, s.input); /* if NULL, the PTY is closed */
	return true;
}

struct program *programs_add_leftover(uint32_t handle, uint64_t mark)
{
	struct program *p = programs_free_slot();

	if (p != NULL)
		*p = (struct program){ .agent = { .used = true,
						  .exited = true,
						  .leftover = true,
						  .handle = handle,
						  .mark = mark,
						  .stdio = { -1, -1, -1, -1 } },
				       .error_fd = -1 };
	return p;
}

/* HELD has the state at the time when it is sent, so nothing else is sent with it. */
static void programs_add_to_send(struct program *p, unsigned what)
{
	if ((p->agent.to_send & AGENTD_SEND_HELD) == 0)
		p->agent.to_send |= what;
}

void programs_on_started(struct program *p)
{
	struct spawn_failure f;
	ssize_t n = read(p->error_fd, &f, sizeof(f));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	io_close_all(&p->error_fd, 1);
	p->agent.starting = false;
	if (n != (ssize_t)sizeof(f)) {
		spawn_child_end(p->agent.pid);
		programs_add_to_send(p, AGENTD_SEND_STARTED);
		return;
	}
	/* EXITED is not sent for it. */
	p->agent.exited = p->agent.failed = true;
	p->agent.end =
		(struct agent_event){ .handle = p->agent.handle, .stage = f.stage, .sys = f.sys };
	p->agent.to_send = AGENTD_SEND_FAILED;
}

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

/* The use of one held program: of its process and the children that it waited for. */
static void programs_own_usage(const struct program *p, struct agent_event *v,
			       const struct rusage *u)
{
	v->cpu_us = (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
		    (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
	v->maxrss_bytes = (uint64_t)u->ru_maxrss * 1024;
	disk_usage_sample();
	v->disk_full = disk_usage_total.filled - p->disk_before.filled;
	v->inodes_full = disk_usage_total.inodes_filled - p->disk_before.inodes_filled;
	if (v->exit_code == 0 && v->signal == 0)
		return; /* it ended well on an already full disk, as a program that frees space does
			 */
	v->disk_full = disk_usage_total.full - p->disk_before.full;
	v->inodes_full = disk_usage_total.inodes_full - p->disk_before.inodes_full;
}

void programs_on_exit(pid_t pid, int status, const struct rusage *u)
{
	struct program *p = NULL;
	bool more;

	spawn_child_end(pid);
	if (spawn_guest != NULL)
		spawn_guest->on_exit(pid);
	do
		p = programs_next(p);
	while (p != NULL && (p->agent.pid != pid || p->agent.exited));
	if (p == NULL)
		return;
	if (p->error_fd >= 0)
		programs_on_started(p); /* it is dead, so the pipe has data or its end */
	if (p->agent.exited)
		return;
	p->agent.exited = true;
	p->ended_ns = clock_now_ns();
	p->agent.end = (struct agent_event){ .handle = p->agent.handle,
					     .pid = (uint32_t)pid,
					     .timed_out = p->agent.timed_out };
	if (WIFSIGNALED(status))
		p->agent.end.signal = (uint32_t)WTERMSIG(status);
	else
		p->agent.end.exit_code = (uint32_t)WEXITSTATUS(status);
	if (p->agent.held)
		programs_own_usage(p, &p->agent.end, u);
	else
		programs_usage(&p->agent.end);
	more = programs_running() > 0;
	if (programs_limits_hit != NULL)
		p->agent.end.flags = programs_limits_hit(&p->limits_before, status != 0, more);
	programs_add_to_send(p, AGENTD_SEND_EXITED);
}

unsigned programs_running(void)
{
	unsigned n = 0;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		n += !p->agent.exited;
	return n;
}

void programs_forget(struct program *p)
{
	io_close_all(&p->error_fd, 1);
	io_close_all(p->agent.stdio, AGENTD_STDIO);
	pty_pump_free(p->pump);
	p->pump = NULL;
	p->agent.used = false;
}

void programs_on_input_end(uint64_t pipe)
{
	struct stat st;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->agent.stdio[0] >= 0 && fstat(p->agent.stdio[0], &st) == 0 &&
		    st.st_ino == pipe)
			agentd_close_stdin(&p->agent);
}

void programs_on_sent(struct program *p)
{
	if (p->agent.to_send == 0 && p->agent.exited && !p->agent.held && !p->agent.report_tree)
		programs_forget(p);
}

void programs_on_disconnect(void)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		if (p->agent.leftover && p->kill_end_ns != 0) { /* the kill is completed */
			p->agent.report_tree = false;
			continue;
		}
		if (!p->agent.held) {
			if (!p->agent.exited) {
				(void)kill(-p->agent.pid, SIGKILL);
				(void)kill(p->agent.pid, SIGKILL); /* not yet its group's leader */
			}
			programs_forget(p);
			continue;
		}
		p->agent.report_tree = false;
		p->agent.to_send = p->agent.failed ? AGENTD_SEND_FAILED : AGENTD_SEND_HELD;
	}
}

void programs_on_paused(uint64_t ms)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		p->kill_end_ns = agentd_put_off(p->kill_end_ns, ms);
}
