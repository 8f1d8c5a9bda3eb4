/* kernel_process.c - theory of operation
 *
 * Three descriptors of a kernel are read: its socket and two pipes. After each read of the socket
 * both pipes are emptied, then the messages are handled: output that the kernel wrote before a
 * message is there by then, so it comes before it.
 *
 * The end is seen by the pidfd, not by the ends of the descriptors, which child programs may keep
 * open. What is still in them is read first. gVisor has no pidfds: there it is the end of the
 * socket, which programs that the kernel executes do not get. */
#include "kernel_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "clock.h"
#include "io.h"
#include "kernel_output.h"

#define READ_SIZE 65536U
#define KEEP_SIZE (1U << 20) /* a larger buffer is given back when it is empty */
#define SEND_MAX (80U << 20)

static void on_channel(struct loop_fd *f, uint32_t events);
static void on_out(struct loop_fd *f, uint32_t events);
static void on_exited(struct loop_fd *f, uint32_t events);
static void on_resume(struct loop_task *t);

static void close_fd(int *fd)
{
	fd_close(*fd);
	*fd = -1;
}

void kernel_init(struct kernel *k, struct loop *loop, unsigned slow_ms,
		 const struct kernel_calls *calls)
{
	*k = (struct kernel){ .calls = calls,
			      .loop = loop,
			      .slow_ms = slow_ms,
			      .pidfd = -1,
			      .channel = -1,
			      .out = { -1, -1 } };
	k->pid_io = (struct loop_fd){ .fd = -1, .on_ready = on_exited, .arg = k };
	k->channel_io = (struct loop_fd){ .fd = -1, .on_ready = on_channel, .arg = k };
	for (int i = 0; i < 2; i++)
		k->out_io[i] = (struct loop_fd){ .fd = -1, .on_ready = on_out, .arg = k };
	k->resume = (struct loop_task){ .on_run = on_resume, .arg = k };
	buf_init(&k->in, KERNEL_LINE_MAX + READ_SIZE);
	buf_init(&k->to, SEND_MAX);
}

/* ---- start and end */

static void give_back(struct kernel *k)
{
	k->run++;
	k->state = KERNEL_NONE;
	loop_remove(k->loop, &k->pid_io);
	loop_remove(k->loop, &k->channel_io);
	loop_remove(k->loop, &k->out_io[0]);
	loop_remove(k->loop, &k->out_io[1]);
	loop_task_cancel(k->loop, &k->resume);
	loop_timer_cancel(k->loop, &k->start_timer);
	close_fd(&k->pidfd);
	close_fd(&k->channel);
	close_fd(&k->out[0]);
	close_fd(&k->out[1]);
	buf_release(&k->in);
	buf_release(&k->to);
	k->scanned = k->ncut[0] = k->ncut[1] = 0;
	k->paused = k->exited = k->ends_by_channel = false;
	if (k->asked_by != NULL)
		*k->asked_by = NULL;
	k->asked_by = NULL;
}

/* Killed, and perhaps not dead yet: reaped with the next that happens. What the parent of Python
 * kernels made is reaped there. */
static pid_t ending[128];
static unsigned nending;

static void reap(void)
{
	unsigned left = 0;

	for (unsigned i = 0; i < nending; i++)
		if (waitpid(ending[i], NULL, WNOHANG) == 0)
			ending[left++] = ending[i];
	nending = left;
}

static void reap_later(pid_t pid)
{
	if (pid > 0 && nending < COUNT(ending))
		ending[nending++] = pid;
}

static void end_process(struct kernel *k)
{
	kernel_kill(k);
	reap_later(k->pid);
	k->pid = 0;
	reap();
}

void kernel_release(struct kernel *k)
{
	end_process(k);
	give_back(k);
}

void kernel_fail(struct kernel *k, const char *why)
{
	if (k->state == KERNEL_NONE)
		return;
	end_process(k);
	give_back(k);
	k->calls->on_end(k, why);
}

static int watch(struct kernel *k, struct loop_fd *f, int fd, struct err *e)
{
	return loop_add(k->loop, f, fd, EPOLLIN, e);
}

static int watch_all(struct kernel *k, struct err *e)
{
	if (watch(k, &k->channel_io, k->channel, e) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (k->out[i] >= 0 && watch(k, &k->out_io[i], k->out[i], e) < 0)
			return -1;
	return 0;
}

int kernel_open(struct kernel *k, struct kernel_ends *ret, struct err *e)
{
	int pair[2], pipes[2][2];

	*ret = (struct kernel_ends){ .channel = -1, .out = { -1, -1 } };
	give_back(k);
	reap();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "channel to a kernel");
	k->channel = pair[0];
	ret->channel = pair[1];
	for (int i = 0; i < 2; i++) {
		if (pipe2(pipes[i], O_CLOEXEC) < 0)
			return err_sys(e, "pipe to a kernel");
		k->out[i] = pipes[i][0];
		ret->out[i] = pipes[i][1];
		(void)fcntl(k->out[i], F_SETFL, O_NONBLOCK);
	}
	(void)fcntl(k->channel, F_SETFL, O_NONBLOCK);
	if (watch_all(k, e) < 0)
		return -1;
	k->state = KERNEL_STARTING;
	kernel_start_begin(k);
	return 0;
}

void kernel_take(struct kernel *k, pid_t pid)
{
	struct err e;

	k->pid = pid;
	k->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	k->ends_by_channel = k->pidfd < 0 && errno == ENOSYS;
	if (k->ends_by_channel ? k->channel_io.fd < 0
			       : k->pidfd < 0 || watch(k, &k->pid_io, k->pidfd, &e) < 0)
		kernel_fail(k, "it has ended");
}

/* ---- to the kernel */

static void flush_to(struct kernel *k)
{
	ssize_t n;

	while (k->to.len > 0) {
		n = send(k->channel, k->to.data, k->to.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_consume(&k->to, (size_t)n);
	}
	if (k->to.len == 0 && k->to.size > KEEP_SIZE)
		buf_release(&k->to);
	if (k->channel_io.fd >= 0)
		loop_modify(k->loop, &k->channel_io,
			    EPOLLIN | (k->to.len > 0 ? (uint32_t)EPOLLOUT : 0));
}

void kernel_send(struct kernel *k, const void *line, size_t n)
{
	struct err e;

	if (k->channel < 0)
		return;
	if (buf_add(&k->to, line, n, &e) < 0) {
		kernel_kill(k); /* it reads nothing, or there is no memory: its end is reported */
		return;
	}
	flush_to(k);
}

void kernel_interrupt(struct kernel *k)
{
	static const char line[] = "{\"op\":\"interrupt\"}\n";

	if (k->pid <= 0)
		return;
	kernel_send(k, line, sizeof(line) - 1);
	(void)kill(-k->pid, SIGINT);
}

void kernel_nudge(struct kernel *k)
{
	if (k->pid > 0)
		(void)kill(k->pid, SIGURG);
}

void kernel_kill(struct kernel *k)
{
	if (k->pid <= 0)
		return;
	(void)kill(-k->pid, SIGKILL);
	if (k->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, k->pidfd, SIGKILL, NULL, 0);
	else if (k->ends_by_channel)
		(void)kill(k->pid, SIGKILL);
}

/* ---- from the kernel */

/* The kernel sends the count before any output of the code, so that message is handled first.
 * Before any other message the pipes are read: what is in them was most likely written earlier. */
static void handle_line(struct kernel *k, const char *line, size_t n)
{
	struct kernel_message m = kernel_message_read(line, n);
	unsigned run = k->run;

	if (m.type != KERNEL_MESSAGE_COUNT && !k->drained) {
		k->drained = true;
		kernel_drain_output(k);
		if (run != k->run)
			return;
	}
	if (m.type == KERNEL_MESSAGE_READY && k->state == KERNEL_STARTING) {
		k->state = KERNEL_READY;
		loop_timer_cancel(k->loop, &k->start_timer);
	}
	if (m.type == KERNEL_MESSAGE_DONE)
		kernel_flush_output(k);
	if (m.type != KERNEL_MESSAGE_OTHER)
		k->calls->on_message(k, &m);
}

/* Handles the lines that are there, until paused. */
static void handle_lines(struct kernel *k)
{
	unsigned run = k->run;
	size_t at = 0;

	while (!k->paused && run == k->run && k->in.len > 0) {
		const char *from = (const char *)k->in.data + at;
		const char *newline = memchr(from + k->scanned, '\n', k->in.len - at - k->scanned);

		if (newline == NULL) {
			k->scanned = k->in.len - at;
			break;
		}
		k->scanned = 0;
		at += (size_t)(newline - from) + 1;
		if (newline > from)
			handle_line(k, from, (size_t)(newline - from));
	}
	if (run != k->run)
		return;
	buf_consume(&k->in, at);
	if (k->in.len == 0 && k->in.size > KEEP_SIZE)
		buf_release(&k->in);
	if (k->scanned > KERNEL_LINE_MAX) {
		kernel_fail(k, "it sent a message of more than 32 MiB");
		return;
	}
}

/* Reads once. False: nothing came. */
static bool read_channel(struct kernel *k)
{
	struct err e;
	uint8_t *room = buf_reserve(&k->in, READ_SIZE, &e);
	ssize_t n;

	if (room == NULL) {
		kernel_fail(k, "there is no memory for its message");
		return false;
	}
	n = recv(k->channel, room, READ_SIZE, MSG_DONTWAIT);
	if (n > 0)
		buf_commit(&k->in, (size_t)n);
	if (n != 0)
		return n > 0;
	loop_remove(k->loop, &k->channel_io); /* its end is seen by the pidfd */
	if (k->ends_by_channel && !k->exited) {
		k->exited = true;
		loop_defer(k->loop, &k->resume);
	}
	return false;
}

static void read_messages(struct kernel *k)
{
	if (k->channel_io.fd < 0 || !read_channel(k))
		return;
	k->drained = false;
	handle_lines(k);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct kernel *k = f->arg;

	if ((events & EPOLLOUT) != 0)
		flush_to(k);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
		read_messages(k);
}

/* Messages first: one of them may say that the code begins that wrote this. */
static void on_out(struct loop_fd *f, uint32_t events)
{
	struct kernel *k = f->arg;
	unsigned run = k->run;

	(void)events;
	read_messages(k);
	if (run == k->run && !k->paused)
		(void)kernel_read_output(k, f == &k->out_io[1]);
}

/* All that it wrote before it ended, as far as it is there. */
static void read_rest(struct kernel *k)
{
	unsigned run = k->run;

	for (size_t sum = 0; run == k->run && !k->paused && sum < KERNEL_LINE_MAX;
	     sum += READ_SIZE) {
		if (k->channel_io.fd < 0 || !read_channel(k))
			break;
		k->drained = false;
		handle_lines(k);
	}
	if (run == k->run && !k->paused)
		kernel_drain_output(k);
	if (run == k->run && !k->paused)
		kernel_flush_output(k);
}

static void finish(struct kernel *k)
{
	unsigned run = k->run;
	siginfo_t info = { 0 };
	char why[64];

	read_rest(k);
	if (run != k->run || k->paused)
		return;
	/* Of a process that the parent of Python kernels made nothing is known. */
	if (waitid(P_PID, (id_t)k->pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == k->pid)
		(void)snprintf(why, sizeof(why),
			       info.si_code == CLD_EXITED ? "it ended with status %d"
							  : "it was ended by signal %d",
			       info.si_status);
	else
		(void)snprintf(why, sizeof(why), "it has ended");
	if (info.si_pid == 0)
		reap_later(k->pid);
	(void)kill(-k->pid, SIGKILL); /* what is left of its process group */
	k->pid = 0;
	give_back(k);
	k->calls->on_end(k, why);
}

static void on_exited(struct loop_fd *f, uint32_t events)
{
	struct kernel *k = f->arg;

	(void)events;
	k->exited = true;
	loop_remove(k->loop, &k->pid_io);
	if (!k->paused)
		finish(k);
}

/* ---- pauses */

static void on_resume(struct loop_task *t)
{
	struct kernel *k = t->arg;
	unsigned run = k->run;

	handle_lines(k);
	if (run == k->run && !k->paused && k->exited)
		finish(k);
}

void kernel_pause(struct kernel *k, bool paused)
{
	struct err e = { 0 };

	if (paused == k->paused || k->state == KERNEL_NONE)
		return;
	k->paused = paused;
	/* Taken out of the loop: an end of the other side would be reported again and again. */
	loop_remove(k->loop, &k->channel_io);
	loop_remove(k->loop, &k->out_io[0]);
	loop_remove(k->loop, &k->out_io[1]);
	if (paused)
		return;
	if (watch_all(k, &e) < 0) {
		kernel_kill(k);
		return;
	}
	if (k->to.len > 0)
		flush_to(k);
	loop_defer(k->loop, &k->resume);
}
