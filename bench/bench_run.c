/* bench_run.c - one run of one command: from before vfork() until wait4() has returned. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int null_fd = -1;
static volatile sig_atomic_t alarm_fired;

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

void sleep_ms(uint32_t ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

void fill_id(struct row *row, uint64_t id)
{
	for (size_t i = 0; i < row->nwords; i++) {
		const char *word = row->words[i];
		const char *mark;

		if (!row->arg_sizes[i])
			continue;
		mark = strstr(word, "%d");
		snprintf(row->args[i], row->arg_sizes[i], "%.*s%" PRIu64 "%s", (int)(mark - word),
			 word, id, mark + 2);
	}
}

/*
 * In the vfork() child: the memory is the parent's, so nothing is written but our own frame. The
 * ids are set by bare system calls because libc's own functions would carry them to "all threads"
 * of the parent.
 */
static _Noreturn void child_exec(const struct row *row, bool keep_stderr)
{
	setpgid(0, 0);
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	if (!keep_stderr)
		dup2(null_fd, STDERR_FILENO);
	if (row->mntns >= 0 && setns(row->mntns, CLONE_NEWNS) < 0)
		_exit(126);
	if (row->user >= 0) {
		long id = (long)row->user;

		if (syscall(SYS_setgroups, 0L, NULL) < 0 ||
		    syscall(SYS_setresgid, id, id, id) < 0 ||
		    syscall(SYS_setresuid, id, id, id) < 0)
			_exit(126);
	}
	execve(row->args[0], row->args, environ);
	_exit(127);
}

static void on_alarm(int signo)
{
	alarm_fired = 1;
}

/*
 * The timer repeats: a first tick that falls between vfork() and wait4() interrupts nothing, the
 * next one will.
 */
static void set_timer(uint32_t seconds)
{
	struct itimerval timer = {
		.it_value.tv_sec = (time_t)seconds,
		.it_interval.tv_usec = seconds ? 100000 : 0,
	};

	setitimer(ITIMER_REAL, &timer, NULL);
}

struct run_result run_once(const struct row *row, uint32_t timeout_s, bool keep_stderr)
{
	struct run_result out = { 0 };
	int64_t start;
	pid_t pid;

	alarm_fired = 0;
	set_timer(timeout_s);
	start = now_ns();
	pid = vfork();
	if (pid == 0)
		child_exec(row, keep_stderr);
	if (pid < 0)
		die("vfork: %s", strerror(errno));
	while (wait4(pid, &out.status, 0, NULL) < 0) {
		if (errno != EINTR)
			die("wait4: %s", strerror(errno));
		if (!alarm_fired)
			continue;
		out.timed_out = true;
		kill(-pid, SIGKILL);
	}
	out.ns = now_ns() - start;
	set_timer(0);
	return out;
}

bool outcome_good(const struct run_result *out)
{
	return !out->timed_out && WIFEXITED(out->status) && WEXITSTATUS(out->status) == 0;
}

void outcome_reason(const struct run_result *out, char *text, size_t size)
{
	if (out->timed_out)
		snprintf(text, size, "timed out");
	else if (WIFSIGNALED(out->status))
		snprintf(text, size, "signal %d", WTERMSIG(out->status));
	else
		snprintf(text, size, "exit %d", WEXITSTATUS(out->status));
}

/* Called once, before the first run. */
void run_prepare(void)
{
	struct sigaction action = { .sa_handler = on_alarm };

	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		die("/dev/null: %s", strerror(errno));
	sigaction(SIGALRM, &action, NULL);
}
