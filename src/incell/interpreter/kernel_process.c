/* kernel_process.c - theory of operation
 *
 * Three descriptors of a kernel are read: its socket and two pipes. After each read of the socket
 * both pipes are emptied, then the messages are handled: output that the kernel wrote before a
 * message is there by then, so it comes before it.
 *
 * The end is seen by the pidfd, not by the ends of the descriptors, which child programs may keep
 * open. Bytes still in them are read first. gVisor has no pidfds: there it is the end of the
 * socket, which programs that the kernel executes do not get. */
#include "incell/interpreter/kernel_process.h"

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
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"

static const struct language languages[] = {
	{ .name = "python",
	  .program = "python3",
	  .package = "python3",
	  .script = "python/kernel.py",
	  .argument = "--parent",
	  .forked = true,
	  .at_start = true },
	{ .name = "javascript",
	  .short_name = "js",
	  .program = "node",
	  .package = "nodejs",
	  .script = "javascript/kernel.mjs",
	  .at_start = true },
	{ .name = "typescript",
	  .short_name = "ts",
	  .program = "node",
	  .package = "nodejs",
	  .script = "javascript/kernel.mjs",
	  .argument = "--typescript" },
	{ .name = "bash",
	  .short_name = "sh",
	  .program = "bash",
	  .package = "bash",
	  .script = "bash/kernel.sh",
	  .file = "/dev/fd/250: ",
	  .shown = "bash: " },
	{ .name = "r", .program = "Rscript", .package = "r-base-core", .script = "r/kernel.R" },
	{ .name = "java",
	  .program = "java",
	  .package = "openjdk-17-jdk-headless",
	  .script = "java/Kernel.java" },
};

const struct language *language_at(size_t i)
{
	return i < COUNT(languages) ? &languages[i] : NULL;
}

const struct language *language_find(const char *name)
{
	if (name[0] == '\0')
		return &languages[0];
	for (size_t i = 0; i < COUNT(languages); i++)
		if (strcmp(name, languages[i].name) == 0 ||
		    (languages[i].short_name != NULL && strcmp(name, languages[i].short_name) == 0))
			return &languages[i];
	return NULL;
}

static const char *search_path(void)
{
	extern char **environ;

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, "PATH=", 5) == 0 && (*v)[5] != '\0')
			return *v + 5;
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

int language_program(const struct language *l, char *ret_path, size_t cap, struct err *e)
{
	const char *path = search_path();

	while (*path != '\0') {
		size_t n = strcspn(path, ":");

		if (n > 0 && n + strlen(l->program) + 2 <= cap) {
			(void)snprintf(ret_path, cap, "%.*s/%s", (int)n, path, l->program);
			if (access(ret_path, X_OK) == 0)
				return 0;
		}
		path += n + (path[n] == ':');
	}
	return err_set(e, ERR_NOT_FOUND,
		       "%s is not installed in this template: %s was not found "
		       "(Debian package %s)",
		       l->name, l->program, l->package);
}

/* ---- output of a kernel on its pipes 1 and 2, given to its owner in whole characters */

#define KERNEL_OUTPUT_READ_SIZE ((size_t)65536)
#define PIPE_TURN \
	(2 * KERNEL_OUTPUT_READ_SIZE) /* what one pipe gives at a time. A pipe holds 64 KiB */

/* Pass on the whole characters among the bytes. The beginning of a character waits for its rest. */
static void give_output(struct kernel *k, int stream, uint8_t *bytes, size_t n, bool all)
{
	size_t whole = n;

	for (size_t back = 1; !all && back <= 3 && back <= n; back++) {
		uint8_t c = bytes[n - back];

		if (c >= 0xc2 && back < (c >= 0xf0 ? 4U : c >= 0xe0 ? 3U : 2U))
			whole = n - back;
		if ((c & 0xc0) != 0x80)
			break;
	}
	k->ncut[stream] = n - whole;
	memcpy(k->cut[stream], bytes + whole, n - whole);
	if (whole > 0)
		k->calls->on_output(k, stream, bytes, whole);
}

/* Reads once. Return how many bytes came. 0: none now. */
static size_t kernel_read_output(struct kernel *k, int stream)
{
	uint8_t bytes[4 + KERNEL_OUTPUT_READ_SIZE];
	size_t kept = k->ncut[stream];
	ssize_t n;

	if (k->out[stream] < 0)
		return 0;
	memcpy(bytes, k->cut[stream], kept);
	n = read(k->out[stream], bytes + kept, KERNEL_OUTPUT_READ_SIZE);
	if (n > 0) {
		give_output(k, stream, bytes, kept + (size_t)n, false);
		return (size_t)n;
	}
	if (n == 0) {
		loop_remove(k->loop, &k->out_io[stream]);
		fd_close(k->out[stream]);
		k->out[stream] = -1;
	}
	return 0;
}

/* Read both pipes, up to a bound. */
static void kernel_drain_output(struct kernel *k)
{
	unsigned run = k->run;

	for (int i = 0; i < 2; i++)
		for (size_t sum = 0, n = 1; n > 0 && sum < PIPE_TURN && run == k->run; sum += n)
			n = kernel_read_output(k, i);
}

/* Pass on the rest of a character that stays incomplete. */
static void kernel_flush_output(struct kernel *k)
{
	for (int i = 0; i < 2; i++)
		if (k->ncut[i] > 0) {
			uint8_t bytes[4];

			memcpy(bytes, k->cut[i], k->ncut[i]);
			give_output(k, i, bytes, k->ncut[i], true);
		}
}

/* ---- the program of a kernel that no parent forks */

/* In the child: reset the server's settings, and become the kernel. */
static NORETURN void run_child(const struct kernel_ends *ends, const char *cwd, char *const argv[],
			       char *const env[])
{
	const int want[] = { open("/dev/null", O_RDONLY | O_CLOEXEC), ends->out[0], ends->out[1],
			     ends->channel };
	struct err e;
	sigset_t none;

	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	IGNORED(io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "300", &e),
		"when memory is short a kernel should be killed before the server");
	/* All have numbers above 3: the server has its own descriptors up to there. */
	for (int i = 0; i < 4; i++)
		if (want[i] <= 3 || dup2(want[i], i) < 0)
			_exit(126);
	if (chdir(cwd) < 0)
		_exit(126);
	(void)execve(argv[0], argv, env);
	_exit(127);
}

int kernel_exec(struct kernel *k, const struct kernel_start *start, struct err *e)
{
	extern char **environ;
	char script[4200];
	const char *const argv[] = { start->program, script, start->language->argument, NULL };
	struct kernel_ends ends;
	int result = kernel_open(k, &ends, e);
	pid_t pid;

	(void)snprintf(script, sizeof(script), "%s/%s", start->kernels, start->language->script);
	pid = result < 0 ? -1 : fork();
	if (pid == 0)
		run_child(&ends, start->cwd, (char *const *)(uintptr_t)argv,
			  start->env == NULL ? environ : start->env);
	fd_close(ends.channel);
	fd_close(ends.out[0]);
	fd_close(ends.out[1]);
	if (pid < 0) {
		if (result == 0)
			(void)err_sys(e, "start %s", start->language->program);
		kernel_release(k);
		return -1;
	}
	kernel_take(k, pid);
	return 0;
}

/* ---- the time until a kernel is ready
 *
 * A kernel that does nothing is given up after slow_ms. One that works gets twelve times as long:
 * on an emulated processor Java needs two minutes. Clients of E2B wait 60 s for the beginning of an
 * answer, and then for its end, so the owner is told after slow_ms and begins its answers.
 *
 * Ticks are counted instead of time, because a session may be paused in between. */

#define SLOW_TICKS 5
#define TICKS_MAX 60
#define IDLE_TICKS 2 /* a pause of the session makes one */

static void set_timer(struct kernel *k)
{
	loop_timer_set(k->loop, &k->start_timer,
		       clock_now_ns() + k->slow_ms * CLOCK_MS / SLOW_TICKS);
}

/* Of its process. 0: not known. */
static uint64_t processor_ns(const struct kernel *k)
{
	struct timespec t;
	clockid_t id;

	if (k->pid <= 0 || clock_getcpuclockid(k->pid, &id) != 0 || clock_gettime(id, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000 * CLOCK_MS + (uint64_t)t.tv_nsec;
}

/* Less than a thousandth of a processor counts as nothing. */
static void note_work(struct kernel *k)
{
	uint64_t now = processor_ns(k);
	bool worked = now > k->worked_ns &&
		      now - k->worked_ns >= k->slow_ms * CLOCK_MS / SLOW_TICKS / 1000;

	k->idle_ticks = worked ? 0 : k->idle_ticks + 1;
	k->worked_ns = now;
}

static void on_tick(struct loop_timer *t)
{
	struct kernel *k = t->arg;

	note_work(k);
	k->start_ticks++;
	if (k->start_ticks >= TICKS_MAX ||
	    (k->start_ticks >= SLOW_TICKS && k->idle_ticks >= IDLE_TICKS)) {
		kernel_fail(k, k->start_ticks >= TICKS_MAX ? "its start takes too long"
							   : "its start does not go on");
		return;
	}
	set_timer(k);
	if (k->start_ticks == SLOW_TICKS && k->calls->on_slow != NULL)
		k->calls->on_slow(k);
}

/* Called when it is KERNEL_STARTING: bounds that. */
static void kernel_start_begin(struct kernel *k)
{
	k->start_timer = (struct loop_timer){ .on_expire = on_tick, .arg = k };
	k->start_ticks = k->idle_ticks = 0;
	k->worked_ns = 0;
	set_timer(k);
}

bool kernel_start_is_slow(const struct kernel *k)
{
	return k->state == KERNEL_STARTING && k->start_ticks >= SLOW_TICKS;
}

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

/* Killed, and perhaps not dead yet: reaped with the next that happens. Kernels made by the Python
 * parent are reaped there. */
static pid_t ending[128];
static unsigned nending;

static void kernel_process_reap(void)
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
	kernel_process_reap();
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

static int kernel_process_watch(struct kernel *k, struct loop_fd *f, int fd, struct err *e)
{
	return loop_add(k->loop, f, fd, EPOLLIN, e);
}

static int watch_all(struct kernel *k, struct err *e)
{
	if (kernel_process_watch(k, &k->channel_io, k->channel, e) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (k->out[i] >= 0 && kernel_process_watch(k, &k->out_io[i], k->out[i], e) < 0)
			return -1;
	return 0;
}

int kernel_open(struct kernel *k, struct kernel_ends *ret, struct err *e)
{
	int pair[2], pipes[2][2];

	*ret = (struct kernel_ends){ .channel = -1, .out = { -1, -1 } };
	give_back(k);
	kernel_process_reap();
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
	if (k->ends_by_channel
		    ? k->channel_io.fd < 0
		    : k->pidfd < 0 || kernel_process_watch(k, &k->pid_io, k->pidfd, &e) < 0)
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
 * Before any other message the pipes are read: bytes in them were most likely written earlier. */
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

/* Handle the lines already there, until paused. */
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

static void kernel_process_finish(struct kernel *k)
{
	unsigned run = k->run;
	siginfo_t info = { 0 };
	char why[64];

	read_rest(k);
	if (run != k->run || k->paused)
		return;
	/* Nothing is known about a process made by the Python parent. */
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

	k->exited = true;
	loop_remove(k->loop, &k->pid_io);
	if (!k->paused)
		kernel_process_finish(k);
}

/* ---- pauses */

static void on_resume(struct loop_task *t)
{
	struct kernel *k = t->arg;
	unsigned run = k->run;

	handle_lines(k);
	if (run == k->run && !k->paused && k->exited)
		kernel_process_finish(k);
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
