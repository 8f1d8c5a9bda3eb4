/* storage_jobs.c - theory of operation
 *
 * The process that holds the channel does nothing with files. It checks a request, forks a runner
 * for it, and waits for three things at once: requests, results, deadlines. A runner calls the
 * operation (storage_ops.h), writes a struct storage_reply to its socket and exits; a runner that
 * exits without one has failed, and one that is late is killed. So answers come in any order, and
 * no request can hold up another one or end the program.
 *
 * All of them are in a pid namespace whose first process is this one: when it exits, for whatever
 * cause, the kernel kills the runners and their workers. */
#include "storage_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "clock.h"
#include "io.h"
#include "log.h"
#include "storage_ops.h"

struct runner {
	pid_t pid;   /* 0: free */
	int results; /* valid while pid is not 0: our end of its socket */
	uint32_t op;
	uint64_t job, serial, end_ns;
	bool late;
};

static struct runner runners[STORAGE_JOBS_MAX + STORAGE_STREAMS_MAX];
static uint64_t serial;
static int channel_fd;

static void fill_disk(struct storage_reply *r)
{
	struct statvfs fs;

	if (statvfs(STORAGE_JAIL_TOP, &fs) < 0)
		return;
	r->disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
	r->disk_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	r->disk_files = (uint64_t)fs.f_files;
	r->disk_files_free = (uint64_t)fs.f_favail;
}

/* False: the channel is closed. It blocks: cordond reads its answers. */
static bool send_reply(struct storage_reply *r, uint32_t op, uint64_t job, int fd)
{
	struct err e;

	r->op = op;
	r->version = STORAGE_VERSION;
	r->job = job;
	fill_disk(r);
	return io_send(channel_fd, r, sizeof(*r), &fd, fd >= 0, &e) == 0;
}

static bool refuse(uint32_t op, uint64_t job, const struct err *why)
{
	struct storage_reply r = { .err = *why };

	return send_reply(&r, op, job, -1);
}

void storage_jobs_refuse(int channel, const struct err *why)
{
	channel_fd = channel;
	(void)refuse(STORAGE_HELLO, 0, why);
}

/* ---- in the runner */

static bool has_mount(const union storage_request *r)
{
	return r->head.op == STORAGE_CONTENT && (r->content.flags & STORAGE_CONTENT_ROOT) != 0;
}

static void NORETURN run(const union storage_request *r, const int *fds, int results)
{
	struct storage_reply reply = { 0 };
	struct storage_run job = {
		.r = r, .fds = fds, .serial = serial, .reply = &reply, .fd = -1
	};
	struct err e = { 0 };

	(void)prctl(PR_SET_NAME, "storage-job", 0, 0, 0);
	fd_close(channel_fd);
	if ((!has_mount(r) && storage_jail_confine_runner(&e) < 0) ||
	    storage_ops_find(r->head.op)(&job, &e) < 0)
		reply = (struct storage_reply){ .err = e };
	IGNORED(io_send(results, &reply, sizeof(reply), &job.fd, job.fd >= 0, &e),
		"the first process has exited");
	_exit(0);
}

/* ---- requests */

/* Streams have the runners behind those of the other requests. */
static struct runner *free_runner(bool stream)
{
	unsigned from = stream ? STORAGE_JOBS_MAX : 0;
	unsigned to = stream ? (unsigned)COUNT(runners) : STORAGE_JOBS_MAX;

	for (unsigned i = from; i < to; i++)
		if (runners[i].pid == 0)
			return &runners[i];
	return NULL;
}

static int start(const union storage_request *r, const int *fds, struct err *e)
{
	struct runner *w = free_runner(storage_msg_is_stream(r));
	int ends[2];
	pid_t pid;

	if (w == NULL)
		return err_set(e, ERR_LIMIT, "too many jobs run already");
	if (storage_ops_find(r->head.op) == NULL)
		return err_set(e, ERR_UNSUPPORTED, "operation %u is not there", r->head.op);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "socketpair");
	OWN_FD ours = ends[0], its = ends[1];
	serial++;
	pid = fork();
	if (pid == 0)
		run(r, fds, its);
	if (pid < 0)
		return err_sys(e, "fork");
	*w = (struct runner){ .pid = pid,
			      .results = TAKE_FD(ours),
			      .op = r->head.op,
			      .job = r->head.job,
			      .serial = serial,
			      .end_ns = clock_now_ns() + r->head.deadline_ms * CLOCK_MS };
	return 0;
}

/* False: the channel is closed, or cordond broke the protocol. */
static bool take_request(void)
{
	static union storage_request r;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };
	ssize_t n = io_recv(channel_fd, &r, sizeof(r), fds, IO_FDS_MAX, &nfds, &e);
	bool goes_on = true;

	if (n <= 0)
		return false;
	if (storage_msg_check(&r, (size_t)n, nfds, &e) < 0) {
		log_error("malformed request to cordon-storage", "error=%s", e.msg);
		io_close_all(fds, nfds);
		return false;
	}
	if (start(&r, fds, &e) < 0)
		goes_on = refuse(r.head.op, r.head.job, &e);
	io_close_all(fds, nfds);
	return goes_on;
}

/* ---- results */

/* A runner was killed: another process removes what it has left. */
static void clean_up(uint64_t left)
{
	pid_t pid = fork();

	if (pid != 0)
		return; /* reaped in turn(); if there is none, the next start removes it */
	storage_ops_clean(left);
	_exit(0);
}

/* The runner has written its result, or has ended without one. False: the channel is closed. */
static bool take_result(struct runner *w)
{
	struct storage_reply r;
	struct err e = { 0 };
	int fd = -1;
	size_t nfds = 0;
	ssize_t n = io_recv(w->results, &r, sizeof(r), &fd, 1, &nfds, &e);
	OWN_FD along = nfds == 1 ? fd : -1;
	bool goes_on;

	(void)kill(w->pid, SIGKILL); /* it has nothing more to do; a worker of it neither */
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	io_close_all(&w->results, 1);
	if (n != (ssize_t)sizeof(r))
		clean_up(w->serial);
	if (w->late)
		(void)err_set_reason(&e, REASON_TIMEOUT, "not done before its deadline");
	else
		(void)err_set(&e, ERR_SYSTEM, "a process of cordon-storage was killed");
	goes_on = n == (ssize_t)sizeof(r) ? send_reply(&r, w->op, w->job, along)
					  : refuse(w->op, w->job, &e);
	w->pid = 0;
	return goes_on;
}

static int until_deadline(void)
{
	uint64_t now = clock_now_ns(), at = UINT64_MAX;

	for (unsigned i = 0; i < COUNT(runners); i++) {
		struct runner *w = &runners[i];

		if (w->pid == 0 || w->late)
			continue;
		if (w->end_ns <= now) {
			w->late = true;
			(void)kill(w->pid, SIGKILL); /* its socket closes, see take_result() */
		} else if (w->end_ns < at) {
			at = w->end_ns;
		}
	}
	return at == UINT64_MAX ? -1 : (int)((at - now) / CLOCK_MS) + 1;
}

/* Processes of clean_up(), and orphans of runners: this one is the first of the pid namespace. */
static void reap_others(void)
{
	siginfo_t ended;

	for (;;) {
		ended.si_pid = 0;
		if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid == 0)
			return;
		for (unsigned i = 0; i < COUNT(runners); i++)
			if (runners[i].pid == ended.si_pid)
				return; /* take_result() does */
		(void)waitpid(ended.si_pid, NULL, WNOHANG);
	}
}

static bool turn(void)
{
	struct pollfd fds[1 + COUNT(runners)] = { { .fd = channel_fd, .events = POLLIN } };
	bool goes_on = true;
	int ms = until_deadline();

	for (unsigned i = 0; i < COUNT(runners); i++)
		fds[1 + i] = (struct pollfd){ .fd = runners[i].pid == 0 ? -1 : runners[i].results,
					      .events = POLLIN };
	if (poll(fds, COUNT(fds), ms) < 0)
		return errno == EINTR;
	reap_others();
	for (unsigned i = 0; i < COUNT(runners) && goes_on; i++)
		if (fds[1 + i].fd >= 0 && fds[1 + i].revents != 0)
			goes_on = take_result(&runners[i]);
	return goes_on && (fds[0].revents == 0 || take_request());
}

int storage_jobs_serve(int channel)
{
	struct storage_reply hello = { 0 };

	channel_fd = channel;
	if (!send_reply(&hello, STORAGE_HELLO, 0, -1))
		return 0;
	while (turn())
		;
	return 0; /* the runners end with the pid namespace */
}
