/* trace.c - theory of operation
 *
 * A thread that calls execve(2) waits until the watcher has answered. The kernel reads path and
 * arguments again after the answer, so another thread may change anything that the watcher could
 * read before. Instead the watcher attaches to the thread as a tracer and asks for a stop, then
 * answers. The thread stops once more: in its new program, before the first instruction, or in the
 * old one, if the call has failed. In the new program no other thread is left: the executable file,
 * the arguments and the directory read there are exactly those of the running program. Then the
 * watcher detaches. Only this thread stops, for some ten microseconds.
 *
 * A call may take for ever: the kernel first ends the other threads of the process, and waits for a
 * program that traces one of them. So nothing here waits for one thread. The stops come as SIGCHLD,
 * through a descriptor, and attaching is bounded by a timer: it needs a lock that such a call
 * holds.
 *
 * A program that a debugger of the cell traces cannot be attached to. For it the watcher records
 * the call's arguments, without WATCH_EXACT.
 *
 * Ends: exit_group(2) is notified, too, and its argument is the exit code. A killed program makes
 * no such call: its pidfd shows the end, and on kernels from 6.15 on the signal.
 *
 * All texts are the cell's, and are copied as bytes. */
#include "cell/init/watch/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/own.h"

#define SEQ_SHIFT 20 /* entries of a second, so that those of a later cell are above */
#define PROGRAMS 512 /* of which the end is watched, at a time */
#define ARGS_READ 16 /* arguments of a claimed call */
#define ATTACH_MS 50 /* beyond it a call is recorded as it was asked for */
#define STATUS_MAX ((size_t)1 << 20)

/* What events[] beside pidfds belong to. */
enum { OF_LISTENER = PROGRAMS, OF_STOPS };

static int events = -1; /* epoll: the listener, stops, and pidfds */
static int stops = -1;	/* signalfd: a thread has stopped or ended */
static sigjmp_buf too_late;

static struct trace_program {
	int pidfd;    /* owned. 0: unused */
	uint32_t pid; /* inside */
} programs[PROGRAMS];

/* Of the timer of trace_attach(): the kernel begins an interrupted ptrace(2) again, so returning
 * from here would not end it. */
static void trace_on_late(int sig)
{
	siglongjmp(too_late, 1);
}

static bool trace_prepare_signals(void)
{
	const struct sigaction late = { .sa_handler = trace_on_late, .sa_flags = SA_NODEFER },
			       usual = { .sa_handler = SIG_DFL };
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = OF_STOPS };
	sigset_t set;

	(void)sigemptyset(&set);
	if (sigaction(SIGCHLD, &usual, NULL) < 0 || sigaction(SIGALRM, &late, NULL) < 0 ||
	    sigaddset(&set, SIGCHLD) < 0 || sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return false;
	stops = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return stops >= 0 && epoll_ctl(events, EPOLL_CTL_ADD, stops, &ev) == 0;
}

bool trace_begin(uint64_t *ret_first)
{
	*ret_first = (uint64_t)time(NULL) << SEQ_SHIFT;
	events = epoll_create1(EPOLL_CLOEXEC);
	return events >= 0 && trace_prepare_signals() && chroot("/proc") == 0 && chdir("/") == 0;
}

static bool trace_is_program(int nr)
{
	return nr == SYS_execve || nr == SYS_execveat || nr == SYS_exit_group;
}

/* As in tools/gen-seccomp. */
bool trace_is_traced(int nr, enum watch_mode mode)
{
	static const int calls[] = { SYS_ptrace,
				     SYS_process_vm_readv,
				     SYS_process_vm_writev,
				     SYS_connect,
				     SYS_bind,
				     SYS_chroot,
				     SYS_setuid,
				     SYS_setresuid,
				     SYS_setgroups,
				     SYS_capset,
				     SYS_memfd_create };

	if (mode != WATCH_REFUSED && mode != WATCH_FILES && trace_is_program(nr))
		return true;
	for (size_t i = 0; mode == WATCH_SOME_CALLS && i < COUNT(calls); i++)
		if (calls[i] == nr)
			return true;
	return false;
}

/* ---- /proc */

static size_t trace_read(pid_t pid, const char *name, char *ret, size_t cap)
{
	char path[48];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/%d/%s", (int)pid, name);
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, cap);
	return n < 0 ? 0 : (size_t)n;
}

void trace_link(pid_t pid, const char *name, char *ret, size_t cap, uint32_t *flags)
{
	char path[48];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/%d/%s", (int)pid, name);
	n = readlink(path, ret, cap);
	if (n == (ssize_t)cap) {
		*flags |= WATCH_CUT;
		n--;
	}
	ret[n < 0 ? 0 : n] = '\0';
}

/* What /proc/PID/status says. inside: the number of the process in the cell. */
struct trace_status {
	uint32_t parent, uid, inside;
};

/* False: it was the last line of interest. */
static bool trace_status_line(const char *line, struct trace_status *ret)
{
	bool last = strncmp(line, "NStgid:", 7) == 0;

	if (strncmp(line, "PPid:", 5) == 0)
		ret->parent = (uint32_t)strtoul(line + 5, NULL, 10);
	if (strncmp(line, "Uid:", 4) == 0)
		ret->uid = (uint32_t)strtoul(line + 4, NULL, 10);
	for (const char *at = strchr(line, '\t'); last && at != NULL; at = strchr(at + 1, '\t'))
		ret->inside = (uint32_t)strtoul(at + 1, NULL, 10); /* the innermost is the last */
	return !last;
}

/* In pieces: the line with the groups of a process may have half a megabyte, and the numbers are
 * behind it. */
static void trace_status(pid_t pid, struct trace_status *ret)
{
	char path[48], piece[4096], line[512];
	size_t at = 0, all = 0;
	ssize_t n;

	*ret = (struct trace_status){ 0 };
	(void)snprintf(path, sizeof(path), "/%d/status", (int)pid);
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && all < STATUS_MAX && (n = read(fd, piece, sizeof(piece))) > 0) {
		all += (size_t)n;
		for (ssize_t i = 0; i < n; i++) {
			if (piece[i] != '\n') {
				line[at] = piece[i];
				at += at < sizeof(line) - 1;
				continue;
			}
			line[at] = '\0';
			at = 0;
			if (!trace_status_line(line, ret))
				return;
		}
	}
}

static uint32_t trace_inside(pid_t pid)
{
	struct trace_status s;

	trace_status(pid, &s);
	return s.inside;
}

void trace_identity(pid_t pid, struct watch_entry *e)
{
	struct trace_status s;

	trace_status(pid, &s);
	e->pid = s.inside;
	e->uid = s.uid;
	e->parent = s.parent > 0 ? trace_inside((pid_t)s.parent) : 0;
}

/* ---- ends */

static struct trace_program *trace_find(uint32_t pid)
{
	for (size_t i = 0; i < PROGRAMS; i++)
		if (programs[i].pidfd > 0 && programs[i].pid == pid)
			return &programs[i];
	return NULL;
}

static void trace_forget(struct trace_program *p)
{
	fd_close(p->pidfd);
	p->pidfd = 0;
}

/* Without room for it only its end by a signal is missed. */
static void trace_watch_end(pid_t pid, uint32_t inside)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (inside == 0 || trace_find(inside) != NULL)
		return;
	for (size_t i = 0; i < PROGRAMS; i++) {
		struct trace_program *p = &programs[i];

		if (p->pidfd > 0)
			continue;
		p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		p->pid = inside;
		ev.data.u32 = (uint32_t)i;
		if (p->pidfd > 0 && epoll_ctl(events, EPOLL_CTL_ADD, p->pidfd, &ev) < 0)
			trace_forget(p);
		if (p->pidfd < 0)
			p->pidfd = 0;
		return;
	}
}

/* PIDFD_GET_INFO of Linux 6.13, with the exit code from 6.15 on. */
struct pidfd_answer {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};
#define PIDFD_ANSWER _IOWR(0xff, 11, struct pidfd_answer)
#define PIDFD_HAS_EXIT (1ULL << 3)

static void trace_on_killed(struct trace_program *p, const struct trace_ops *ops)
{
	struct pidfd_answer a = { .mask = PIDFD_HAS_EXIT };
	struct watch_entry e = { .kind = WATCH_EXIT,
				 .flags = WATCH_EXACT | WATCH_UNKNOWN,
				 .pid = p->pid };

	if (syscall(SYS_ioctl, p->pidfd, PIDFD_ANSWER, &a) == 0 && (a.mask & PIDFD_HAS_EXIT) != 0) {
		bool killed = WIFSIGNALED(a.exit_code);

		e.flags = WATCH_EXACT | (killed ? (uint32_t)WATCH_SIGNAL : 0);
		e.code = killed ? WTERMSIG(a.exit_code) : WEXITSTATUS(a.exit_code);
	}
	trace_forget(p);
	ops->write(&e);
}

static void trace_exit(const struct seccomp_notif *n, const struct trace_ops *ops)
{
	struct watch_entry e = { .kind = WATCH_EXIT,
				 .flags = WATCH_EXACT,
				 .code = (int32_t)(n->data.args[0] & 0xff) };
	struct trace_program *p;

	trace_identity((pid_t)n->pid, &e);
	p = trace_find(e.pid);
	if (p != NULL)
		trace_forget(p);
	if (e.pid != 1) /* before clients are told of the end */
		ops->write(&e);
	ops->answer(n->id);
}

/* ---- starts */

/* In the new program, which stands still. */
static void trace_read_program(pid_t pid, struct watch_entry *e)
{
	e->flags |= WATCH_EXACT;
	trace_link(pid, "exe", e->path, sizeof(e->path), &e->flags);
	trace_link(pid, "cwd", e->cwd, sizeof(e->cwd), &e->flags);
	e->args_len = (uint32_t)trace_read(pid, "cmdline", e->args, sizeof(e->args));
	if (e->args_len == sizeof(e->args))
		e->flags |= WATCH_CUT;
	trace_identity(pid, e);
}

/* One piece: not over the end of a page, behind which there may be none. */
static size_t trace_copy_piece(pid_t pid, uint64_t from, void *to, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)(uintptr_t)from, n };
	ssize_t got;

	if (there.iov_len > 4096 - from % 4096)
		there.iov_len = here.iov_len = 4096 - from % 4096;
	got = process_vm_readv(pid, &here, 1, &there, 1, 0);
	return got < 0 ? 0 : (size_t)got;
}

size_t trace_copy(pid_t pid, uint64_t from, void *to, size_t n)
{
	size_t all = 0, got = 1;

	while (all < n && got > 0)
		all += got = trace_copy_piece(pid, from + all, (char *)to + all, n - all);
	return all;
}

/* A text of the call: its length, without the NUL. */
static size_t trace_copy_text(pid_t pid, uint64_t from, char *to, size_t n, uint32_t *flags)
{
	size_t got = trace_copy(pid, from, to, n), len = strnlen(to, got);

	if (len == n)
		*flags |= WATCH_CUT;
	return len;
}

/* The arguments of the call, which another thread may change after this. */
static void trace_read_call(const struct seccomp_notif *n, struct watch_entry *e)
{
	unsigned first = n->data.nr == SYS_execveat ? 1 : 0;
	pid_t pid = (pid_t)n->pid;
	uint64_t argv[ARGS_READ] = { 0 };

	e->path[trace_copy_text(pid, n->data.args[first], e->path, sizeof(e->path) - 1,
				&e->flags)] = '\0';
	(void)trace_copy(pid, n->data.args[first + 1], argv, sizeof(argv));
	for (size_t i = 0; i < ARGS_READ && argv[i] != 0 && e->args_len < sizeof(e->args); i++) {
		char *to = e->args + e->args_len;
		size_t got =
			trace_copy_text(pid, argv[i], to, sizeof(e->args) - e->args_len, &e->flags);

		e->args_len += (uint32_t)got + (e->args_len + got < sizeof(e->args));
	}
	trace_link(pid, "cwd", e->cwd, sizeof(e->cwd), &e->flags);
	trace_identity(pid, e);
}

static bool trace_attach(pid_t pid)
{
	static const struct itimerval soon = { .it_value.tv_usec = ATTACH_MS * 1000 }, never;
	bool done;

	if (sigsetjmp(too_late, 0) != 0)
		return false;
	(void)setitimer(ITIMER_REAL, &soon, NULL);
	done = ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC) == 0;
	(void)setitimer(ITIMER_REAL, &never, NULL);
	return done && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0;
}

/* In its new program, or in the old one: the call has failed. The thread of a new program has the
 * number of its process. */
static void trace_on_stop(pid_t pid, int status, const struct trace_ops *ops)
{
	struct watch_entry e = { .kind = WATCH_EXEC };
	bool started = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8);
	int sig = status >> 16 == 0 ? WSTOPSIG(status) : 0; /* one that it was about to get */

	if (started) {
		trace_read_program(pid, &e);
		trace_watch_end(pid, e.pid);
	}
	(void)ptrace(PTRACE_DETACH, pid, 0, sig);
	if (started)
		ops->write(&e);
}

static void trace_on_stops(const struct trace_ops *ops)
{
	struct signalfd_siginfo unused;
	int status;
	pid_t pid;

	while (read(stops, &unused, sizeof(unused)) > 0) {
	}
	while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
		if (WIFSTOPPED(status))
			trace_on_stop(pid, status, ops);
}

static void trace_exec(const struct seccomp_notif *n, const struct trace_ops *ops)
{
	struct watch_entry e = { .kind = WATCH_EXEC };
	pid_t pid = (pid_t)n->pid;

	if (trace_inside(pid) == 1) { /* the cell's own */
		ops->answer(n->id);
		return;
	}
	if (trace_attach(pid)) {
		ops->answer(n->id);
		return; /* trace_on_stop() follows */
	}
	trace_read_call(n, &e);
	ops->answer(n->id);
	trace_watch_end(pid, e.pid);
	ops->write(&e);
}

/* Its numbers are those the kernel gets. Another thread may change the bytes behind a pointer after
 * this. */
static void trace_other(const struct seccomp_notif *n, const struct trace_ops *ops)
{
	struct watch_entry e = { .kind = WATCH_CALL, .code = n->data.nr };
	bool address = n->data.nr == SYS_connect || n->data.nr == SYS_bind;
	pid_t pid = (pid_t)n->pid;

	trace_identity(pid, &e);
	trace_link(pid, "exe", e.path, sizeof(e.path), &e.flags);
	memcpy(e.args, n->data.args, sizeof(n->data.args));
	e.args_len = sizeof(n->data.args);
	if (address) /* no more than the call says: other things are behind it */
		e.args_len += (uint32_t)trace_copy(pid, n->data.args[1], e.args + e.args_len,
						   n->data.args[2] < WATCH_ADDRESS ? n->data.args[2]
										   : WATCH_ADDRESS);
	ops->answer(n->id);
	if (e.pid != 1)
		ops->write(&e);
}

void trace_call(const struct seccomp_notif *n, const struct trace_ops *ops)
{
	if (!trace_is_program(n->data.nr)) {
		trace_other(n, ops);
		return;
	}
	if (n->data.nr == SYS_exit_group)
		trace_exit(n, ops);
	else
		trace_exec(n, ops);
}

/* ---- waiting */

int trace_wait(int listener, const struct trace_ops *ops)
{
	static bool added;
	struct epoll_event ev[16], own = { .events = EPOLLIN, .data.u32 = OF_LISTENER };
	int n, got = 0;

	if (!added && epoll_ctl(events, EPOLL_CTL_ADD, listener, &own) < 0)
		return POLLERR;
	added = true;
	n = epoll_wait(events, ev, COUNT(ev), -1);
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 == OF_LISTENER)
			got = (int)ev[i].events;
		else if (ev[i].data.u32 == OF_STOPS)
			trace_on_stops(ops);
		else if (programs[ev[i].data.u32].pidfd > 0)
			trace_on_killed(&programs[ev[i].data.u32], ops);
	}
	return got;
}
