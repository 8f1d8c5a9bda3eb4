/* main.c - cordon-init: PID 1 of every cell.
 *
 * It reaps, starts programs on request, tells how they ended, and ends the cell by ending itself:
 * the kernel then kills whatever is left in the pid namespace. It does not trust the cell, which is
 * all around it: it is not dumpable (so nobody in the cell may trace it or look into its memory),
 * takes no signals from it, waits for nobody in it, and reads none of its files without bounds.
 *
 * Everything happens in one loop over: the channel, SIGCHLD, the error pipes of programs being
 * started, and the nearest deadline. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent_msg.h"
#include "clock.h"
#include "diff.h"
#include "io.h"
#include "spawn.h"

#define CHANNEL_FD 3
#define PROGRAMS_MAX 256
#define SAMPLE_MS 100

struct program {
	bool used, timed_out;
	uint32_t handle;
	uint64_t deadline_ns; /* 0: none */
	struct spawn spawn;   /* error_fd >= 0 until the program runs */
};

static struct program programs[PROGRAMS_MAX];
static unsigned nprograms; /* slots at or above this were never used */
static bool killing_all;
static uint64_t disk_full, inodes_full;
static int signal_fd;

static void say(enum agent_type type, const struct agent_event *v, const int *fds, size_t nfds)
{
	uint8_t bytes[FRAME_HEAD + sizeof(*v)];
	struct err e;

	frame_head(bytes, (uint16_t)type, sizeof(*v));
	memcpy(bytes + FRAME_HEAD, v, sizeof(*v));
	if (io_send(CHANNEL_FD, bytes, sizeof(bytes), fds, nfds, &e) < 0)
		_exit(0); /* nobody holds the other end: the cell is over */
}

/* All writes of a cell go to one file system; was it full just now? */
static void sample_disk(void)
{
	struct statfs fs;

	if (statfs("/dev/shm", &fs) < 0)
		return;
	disk_full += fs.f_bfree == 0;
	inodes_full += fs.f_ffree == 0;
}

static void add_usage(struct agent_event *v)
{
	struct rusage u;

	(void)getrusage(RUSAGE_CHILDREN, &u);
	v->cpu_us = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
		    (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	v->maxrss_bytes = (uint64_t)u.ru_maxrss * 1024;
	sample_disk();
	v->disk_full = disk_full;
	v->inodes_full = inodes_full;
}

static struct program *find(uint32_t handle)
{
	for (unsigned i = 0; i < nprograms; i++)
		if (programs[i].used && programs[i].handle == handle)
			return &programs[i];
	return NULL;
}

static struct program *free_slot(void)
{
	for (unsigned i = 0; i < nprograms; i++)
		if (!programs[i].used)
			return &programs[i];
	return nprograms < PROGRAMS_MAX ? &programs[nprograms++] : NULL;
}

static void say_failed(uint32_t handle, const struct spawn_failure *f)
{
	struct agent_event v = { .handle = handle, .stage = f->stage, .sys = f->sys };

	say(AGENT_FAILED, &v, NULL, 0);
}

static void on_spawn(const struct frame *f)
{
	struct agent_spawn request;
	struct spawn_failure fail;
	struct program *p;
	struct err e;

	if (agent_spawn_read(f->body, f->len, &request, &e) < 0)
		_exit(1);
	p = find(request.handle) == NULL ? free_slot() : NULL;
	if (p == NULL) {
		say_failed(request.handle, &(struct spawn_failure){ AGENT_AT_SYSTEM, EAGAIN });
		return;
	}
	if (spawn_start(&request, &p->spawn, &fail) < 0) {
		say_failed(request.handle, &fail);
		return;
	}
	p->used = true;
	p->timed_out = false;
	p->handle = request.handle;
	p->deadline_ns =
		request.timeout_ms == 0 ? 0 : clock_now_ns() + request.timeout_ms * CLOCK_MS;
}

/* The error pipe ended: the program runs. It spoke: the program does not. */
static void on_started(struct program *p)
{
	struct agent_event v = { .handle = p->handle, .pid = (uint32_t)p->spawn.pid };
	struct spawn_failure f;
	ssize_t n = read(p->spawn.error_fd, &f, sizeof(f));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof(f)) {
		say_failed(p->handle, &f);
		p->used = false; /* its exit is nobody's business */
	} else {
		say(AGENT_STARTED, &v, p->spawn.stdio, p->spawn.nstdio);
	}
	io_close_all(&p->spawn.error_fd, 1);
	io_close_all(p->spawn.stdio, 3);
}

static void on_exit_of(pid_t pid, int status)
{
	for (unsigned i = 0; i < nprograms; i++) {
		struct program *p = &programs[i];

		if (!p->used || p->spawn.pid != pid)
			continue;
		if (p->spawn.error_fd >= 0)
			on_started(p); /* dead, so the pipe has ended or spoken */
		if (!p->used)
			return;
		struct agent_event v = { .handle = p->handle,
					 .pid = (uint32_t)pid,
					 .timed_out = p->timed_out };

		if (WIFSIGNALED(status))
			v.signal = (uint32_t)WTERMSIG(status);
		else
			v.exit_code = (uint32_t)WEXITSTATUS(status);
		add_usage(&v);
		p->used = false;
		say(AGENT_EXITED, &v, NULL, 0);
		return;
	}
}

/* Reaps all there is. True if no child is left. */
static bool reap(void)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid < 0)
			return errno == ECHILD;
		if (pid == 0)
			return false;
		on_exit_of(pid, status);
	}
}

static void go_on_killing(void)
{
	struct agent_event v = { 0 };

	/* One kill(2) reaches everything there is, and a fork in progress cannot slip away: it is
	 * restarted into the signal. Repeated, because what was being born may now be there. */
	(void)kill(-1, SIGKILL);
	if (!reap())
		return;
	killing_all = false;
	add_usage(&v);
	say(AGENT_ALL_DEAD, &v, NULL, 0);
}

static void on_frame(const struct frame *f)
{
	struct agent_signal s;
	struct program *p;
	struct err e;

	switch (f->type) {
	case AGENT_SPAWN:
		on_spawn(f);
		break;
	case AGENT_SIGNAL:
		if (agent_signal_read(f->body, f->len, &s, &e) < 0)
			_exit(1);
		p = find(s.handle);
		if (p != NULL)
			(void)kill(-p->spawn.pid, s.sig);
		break;
	case AGENT_KILL_ALL:
		killing_all = true;
		go_on_killing();
		break;
	default:
		_exit(1); /* the outside and we were built together: this is no peer of ours */
	}
}

/* Reads what there is and handles every whole frame. The buffer is large and mostly untouched:
 * memory is taken only by what a request needs, and given back. */
static void on_channel(void)
{
	static uint8_t *buffer;
	static size_t have;
	const size_t cap = FRAME_HEAD + AGENT_REQUEST_MAX;
	size_t at = 0;
	struct frame f;
	struct err e;
	ssize_t n;
	int took;

	if (buffer == NULL) {
		buffer = mmap(NULL, cap, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (buffer == MAP_FAILED)
			_exit(1);
	}
	n = recv(CHANNEL_FD, buffer + have, cap - have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		_exit(0); /* nobody holds the other end: the cell is over */
	have += (size_t)n;
	while ((took = frame_read(buffer + at, have - at, AGENT_REQUEST_MAX, &f, &e)) > 0) {
		on_frame(&f);
		at += (size_t)took;
	}
	if (took < 0)
		_exit(1);
	memmove(buffer, buffer + at, have - at);
	have -= at;
	if (at > 65536 && have == 0)
		(void)madvise(buffer, cap, MADV_DONTNEED);
}

/* Ends what is over its time; returns how long poll may sleep. */
static int check_deadlines(void)
{
	uint64_t now = clock_now_ns();
	uint64_t sleep_ms = UINT64_MAX;

	for (unsigned i = 0; i < nprograms; i++) {
		struct program *p = &programs[i];

		if (!p->used)
			continue;
		if (sleep_ms > SAMPLE_MS)
			sleep_ms = SAMPLE_MS;
		if (p->deadline_ns == 0 || p->timed_out)
			continue;
		if (p->deadline_ns <= now) {
			p->timed_out = true;
			(void)kill(-p->spawn.pid, SIGKILL);
			(void)kill(p->spawn.pid, SIGKILL); /* not yet its group's leader */
		} else if ((p->deadline_ns - now) / CLOCK_MS < sleep_ms) {
			sleep_ms = (p->deadline_ns - now) / CLOCK_MS + 1;
		}
	}
	return sleep_ms == UINT64_MAX ? -1 : (int)sleep_ms;
}

static void turn(void)
{
	struct pollfd fds[2 + PROGRAMS_MAX] = { { .fd = CHANNEL_FD, .events = POLLIN },
						{ .fd = signal_fd, .events = POLLIN } };
	struct program *who[2 + PROGRAMS_MAX];
	struct signalfd_siginfo info;
	nfds_t n = 2;
	int ready;

	for (unsigned i = 0; i < nprograms; i++)
		if (programs[i].used && programs[i].spawn.error_fd >= 0) {
			who[n] = &programs[i];
			fds[n++] = (struct pollfd){ .fd = programs[i].spawn.error_fd,
						    .events = POLLIN };
		}
	ready = poll(fds, n, check_deadlines());
	if (ready == 0)
		sample_disk();
	for (nfds_t i = 2; i < n; i++)
		if (fds[i].revents != 0 && who[i]->used && who[i]->spawn.error_fd == fds[i].fd)
			on_started(who[i]);
	if (fds[1].revents != 0 && read(signal_fd, &info, sizeof(info)) > 0) {
		if (killing_all)
			go_on_killing();
		else
			(void)reap();
	}
	if (fds[0].revents != 0)
		on_channel();
}

int main(int argc, char **argv)
{
	static const unsigned long default_action[4]; /* the kernel's struct sigaction, all zero */
	const struct agent_event ready = { .pid = AGENT_VERSION };
	sigset_t set;

	if (argc > 1 && strcmp(argv[1], "diff") == 0)
		return diff_main(argc - 2, argv + 2);
	(void)prctl(PR_SET_NAME, "cordon-init", 0, 0, 0);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	/* What the caller's caller ignored is no concern of the cell's programs. By system call:
	 * libc keeps some numbers for itself. */
	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, default_action, NULL, 8);
	(void)sigfillset(&set);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return 1;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return 1;
	say(AGENT_READY, &ready, NULL, 0);
	for (;;)
		turn();
}
