/* main.c - cordon-storage: keeps on disk what outlives a cell: layers, volumes, disks. The order of
 * its start is here, and channel D: a process for each request.
 *
 *   storage_jail.c   the rights that the program and its workers give up
 *   storage_ops.c    the table of operations, each in op_<name>.c
 *
 * It is started by cordon serve with the channel to cordond and the storage folder, and ends when
 * the channel closes. Its input was written by cells or comes from the network. The files it writes
 * have owners and modes of their choice, in a folder that no other user of the machine can
 * enter. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/fd_std.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/log.h"
#include "lib/wire/supervisor_msg.h"
#include "storage/op_root.h"
#include "storage/storage_jail.h"
#include "storage/storage_ops.h"

/* ---- channel D
 *
 * The process that holds the channel does nothing with files. It checks a request, forks a runner
 * for it, and waits for three things at once: requests, results, deadlines. A runner calls the
 * operation (storage_ops.h), writes a struct storage_reply to its socket and exits. A runner that
 * exits without one has failed, and a late one is killed. So answers come in any order, and no
 * request can hold up another one or end the program.
 *
 * All of them are in a pid namespace whose first process is this one: when it exits, for whatever
 * cause, the kernel kills the runners and their workers. */

/* A row for each job. cordond knows it by `job`, and names of temporary files contain `serial`.
 * late: killed at its deadline, and its socket has not been read yet. */
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

/* Every answer tells how full the disk is. The numbers stay 0 if they cannot be read. */
static void main_fill_disk(struct storage_reply *r)
{
	struct statvfs fs;
	struct stat st;

	if (statvfs(STORAGE_JAIL_TOP, &fs) < 0 || stat(STORAGE_JAIL_TOP, &st) < 0)
		return;
	r->disk_device = st.st_dev;
	r->disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
	r->disk_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	r->disk_files = (uint64_t)fs.f_files;
	r->disk_files_free = (uint64_t)fs.f_favail;
}

/* False: the channel is closed. It blocks: cordond reads its answers. */
static bool main_send_reply(struct storage_reply *r, uint32_t op, uint64_t job, int fd)
{
	struct err e;

	r->op = op;
	r->version = STORAGE_VERSION;
	r->job = job;
	main_fill_disk(r);
	return io_send(channel_fd, r, sizeof(*r), &fd, fd >= 0, &e) == 0;
}

/* As main_send_reply(), with an error and nothing else. */
static bool main_refuse(uint32_t op, uint64_t job, const struct err *why)
{
	struct storage_reply r = { .err = *why };

	return main_send_reply(&r, op, job, -1);
}

/* Send HELLO with the reason why the program cannot work. */
static void main_refuse_all(int channel, const struct err *why)
{
	channel_fd = channel;
	(void)main_refuse(STORAGE_HELLO, 0, why);
}

/* ---- in the runner */

/* True if the request's volume is a mount outside of the storage folder. */
static bool main_has_mount(const union storage_request *r)
{
	return r->head.op == STORAGE_CONTENT && (r->content.flags & STORAGE_CONTENT_ROOT) != 0;
}

/* Landlock first, unless the request brought a mount, then the operation. An error empties the
 * answer. */
static void NORETURN main_run(const union storage_request *r, const int *fds, int results)
{
	struct storage_reply reply = { 0 };
	struct storage_run job = {
		.r = r, .fds = fds, .serial = serial, .reply = &reply, .fd = -1
	};
	struct err e = { 0 };

	(void)prctl(PR_SET_NAME, "storage-job", 0, 0, 0);
	fd_close(channel_fd);
	if ((!main_has_mount(r) && storage_jail_confine_runner(&e) < 0) ||
	    storage_ops_find(r->head.op)(&job, &e) < 0)
		reply = (struct storage_reply){ .err = e };
	IGNORED(io_send(results, &reply, sizeof(reply), &job.fd, job.fd >= 0, &e),
		"the first process has exited");
	_exit(0);
}

/* ---- requests */

/* Streams have the runners behind those of the other requests. */
static struct runner *main_free_runner(bool stream)
{
	unsigned from = stream ? STORAGE_JOBS_MAX : 0;
	unsigned to = stream ? (unsigned)COUNT(runners) : STORAGE_JOBS_MAX;

	for (unsigned i = from; i < to; i++)
		if (runners[i].pid == 0)
			return &runners[i];
	return NULL;
}

/* Fork a runner. fds stay the caller's. */
static int main_start(const union storage_request *r, const int *fds, struct err *e)
{
	struct runner *w = main_free_runner(storage_msg_is_stream(r));
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
		main_run(r, fds, its);
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
static bool main_take_request(void)
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
	if (r.head.op == STORAGE_LOOK) /* asked for often: no process is made for it */
		goes_on =
			main_send_reply(&(struct storage_reply){ 0 }, STORAGE_LOOK, r.head.job, -1);
	else if (main_start(&r, fds, &e) < 0)
		goes_on = main_refuse(r.head.op, r.head.job, &e);
	io_close_all(fds, nfds);
	return goes_on;
}

/* ---- results */

/* A runner was killed: another process removes its remains. */
static void main_clean_up(uint64_t left)
{
	pid_t pid = fork();

	if (pid != 0)
		return; /* reaped in main_turn(). If there is none, the next start removes it */
	storage_ops_clean(left);
	_exit(0);
}

/* The runner has written its result, or has ended without one. False: the channel is closed. */
static bool main_take_result(struct runner *w)
{
	struct storage_reply r;
	struct err e = { 0 };
	int fd = -1;
	size_t nfds = 0;
	ssize_t n = io_recv(w->results, &r, sizeof(r), &fd, 1, &nfds, &e);
	OWN_FD along = nfds == 1 ? fd : -1;
	bool goes_on;

	(void)kill(w->pid, SIGKILL); /* it has nothing more to do. A worker of it neither */
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	io_close_all(&w->results, 1);
	if (n != (ssize_t)sizeof(r))
		main_clean_up(w->serial);
	if (w->late)
		(void)err_set_reason(&e, REASON_TIMEOUT, "not done before its deadline");
	else
		(void)err_set(&e, ERR_SYSTEM, "a process of cordon-storage was killed");
	goes_on = n == (ssize_t)sizeof(r) ? main_send_reply(&r, w->op, w->job, along)
					  : main_refuse(w->op, w->job, &e);
	w->pid = 0;
	return goes_on;
}

/* Kill late runners. Return milliseconds up to the next deadline, or -1 for poll() without one. */
static int main_until_deadline(void)
{
	uint64_t now = clock_now_ns(), at = UINT64_MAX;

	for (unsigned i = 0; i < COUNT(runners); i++) {
		struct runner *w = &runners[i];

		if (w->pid == 0 || w->late)
			continue;
		if (w->end_ns <= now) {
			w->late = true;
			(void)kill(w->pid, SIGKILL); /* its socket closes, see main_take_result() */
		} else if (w->end_ns < at) {
			at = w->end_ns;
		}
	}
	return at == UINT64_MAX ? -1 : (int)((at - now) / CLOCK_MS) + 1;
}

/* Processes of main_clean_up(), and runners' orphans: this one is the pid namespace's first. */
static void main_reap_others(void)
{
	siginfo_t ended;

	for (;;) {
		ended.si_pid = 0;
		if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid == 0)
			return;
		for (unsigned i = 0; i < COUNT(runners); i++)
			if (runners[i].pid == ended.si_pid)
				return; /* main_take_result() does */
		(void)waitpid(ended.si_pid, NULL, WNOHANG);
	}
}

/* One turn of the server: results before requests, since they free runners. False ends the program.
 */
static bool main_turn(void)
{
	struct pollfd fds[1 + COUNT(runners)] = { { .fd = channel_fd, .events = POLLIN } };
	bool goes_on = true;
	int ms = main_until_deadline();

	for (unsigned i = 0; i < COUNT(runners); i++)
		fds[1 + i] = (struct pollfd){ .fd = runners[i].pid == 0 ? -1 : runners[i].results,
					      .events = POLLIN };
	if (poll(fds, COUNT(fds), ms) < 0)
		return errno == EINTR;
	main_reap_others();
	for (unsigned i = 0; i < COUNT(runners) && goes_on; i++)
		if (fds[1 + i].fd >= 0 && fds[1 + i].revents != 0)
			goes_on = main_take_result(&runners[i]);
	return goes_on && (fds[0].revents == 0 || main_take_request());
}

/* Send HELLO and serve until the channel closes. Return the exit status of the program. */
static int main_serve(int channel)
{
	struct storage_reply hello = { 0 };

	channel_fd = channel;
	if (!main_send_reply(&hello, STORAGE_HELLO, 0, -1))
		return 0;
	while (main_turn())
		;
	return 0; /* the runners end with the pid namespace */
}

/* Of cordon run: the program makes one root image, and ends. */
#define IMAGE_WORD "--image="

/* ---- the start */

/* "--start=F:L": format and level of the log, as the numbers of log.h. */
static void main_read_word(const char *word)
{
	unsigned format, level;

	/* NOLINTNEXTLINE(cert-err34-c): one digit fits */
	if (sscanf(word, "--start=%1u:%1u", &format, &level) == 2 && format < LOG_FORMATS &&
	    level < LOG_LEVELS)
		log_setup((enum log_format)format, (enum log_level)level);
}

/* Rights are given up last: the steps before need them. */
static int main_prepare(struct err *e)
{
	if (op_arrange_setup(STORAGE_FD_AUTHORITY, e) < 0)
		return -1;
	if (storage_jail_enter(e) < 0)
		return err_wrap(e, "jail");
	if (storage_jail_lock(STORAGE_FD_DIR, e) < 0 || storage_ops_setup(e) < 0)
		return -1;
	return storage_jail_confine(e);
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	fd_std_fill();
	if (argc == 2 && strncmp(argv[1], IMAGE_WORD, strlen(IMAGE_WORD)) == 0)
		return image_tool_main(argv[1] + strlen(IMAGE_WORD));
	if (fcntl(STORAGE_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(STORAGE_FD_DIR, F_SETFD, FD_CLOEXEC) < 0) {
		(void)fprintf(stderr, "cordon-storage: must be started by cordon serve\n");
		return 2;
	}
	for (int fd = STORAGE_FD_AUTHORITY; fd < STORAGE_FDS_END; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* not all need be there */
	(void)kernel_close_range(STORAGE_FDS_END, ~0U);
	if (argc == 2)
		main_read_word(argv[1]);
	/* Executed by descriptor, it has no name. */
	(void)prctl(PR_SET_NAME, "cordon-storage", 0, 0, 0);
	(void)umask(022);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL);
	if (main_prepare(&e) < 0) {
		log_error("cordon-storage cannot start", "error=%s", e.msg);
		main_refuse_all(STORAGE_FD_CHANNEL, &e);
		return SERVE_EXIT_CANNOT_START;
	}
	return main_serve(STORAGE_FD_CHANNEL);
}
