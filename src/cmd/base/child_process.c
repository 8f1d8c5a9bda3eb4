#include "cmd/base/child_process.h"

#include <assert.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "cell/cellctl/installed.h"
#include "cell/cellctl/rootless.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* When the machine is out of memory, the kernel shall end cells and other programs before the
 * daemons. Most of a cell's memory is files in memory, counted by the kernel for no process.
 */
#define OOM_SCORE "-900"
#define FIRST 3	  /* the first number after the standard streams */
#define ASIDE 200 /* above all numbers that programs expect descriptors at */
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 1000
#define PAUSE_LONG_MS 10000 /* after QUICK_ENDS: the cause does not go away soon */
#define QUICK_ENDS 12
#define LIVED_MS 1000 /* a process that lived this long is started again at once */

/* In the child: places the descriptors, drops rights, then executes the program, whose own
 * descriptor comes after the others. */
static void NORETURN child_process_exec(const struct child_process_start *how, int program)
{
	char name[32], word[96], path[PATH_MAX];
	char *argv[] = { name, how->word == NULL ? NULL : word, NULL }, *envp[] = { NULL };
	int fds[CHILD_PROCESS_FDS_MAX + 1], n = (int)how->nfds + 1;
	sigset_t none;
	struct err e;

	if (how->userns > 0 && rootless_join(how->userns, &e) < 0)
		_exit(126);
	str_copy(name, how->name);
	str_copy(word, how->word == NULL ? "" : how->word);
	if (how->out != 0 && dup2(how->out, STDOUT_FILENO) < 0)
		_exit(126);
	if (how->nfds > 0)
		memcpy(fds, how->fds, how->nfds * sizeof(fds[0]));
	fds[n - 1] = program;
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ASIDE)) < 0)
			_exit(126);
	for (int i = 0; i < n; i++) {
		if (fds[i] >= 0 && dup3(fds[i], FIRST + i, i + 1 == n ? O_CLOEXEC : 0) < 0)
			_exit(126);
		if (fds[i] < 0)
			fd_close(FIRST + i);
	}
	(void)kernel_close_range((unsigned)(FIRST + n), ~0U);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid(); /* Ctrl-C at a terminal is for the supervisor alone */
	IGNORED(io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE, &e),
		"only root may lower it");
	if (how->drop && (setgroups(0, NULL) < 0 || setresgid(how->gid, how->gid, how->gid) < 0 ||
			  setresuid(how->uid, how->uid, how->uid) < 0))
		_exit(126);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(126);
	(void)kernel_execveat(FIRST + n - 1, argv, envp);
	/* A script: its interpreter opens it by path. */
	if (installed_path(how->name, path, sizeof(path), &e) == 0)
		(void)execve(path, argv, envp);
	_exit(127);
}

int child_process_start(const struct child_process_start *how, pid_t *ret_pid, struct err *e)
{
	int found;
	pid_t pid;

	assert(how->nfds <= CHILD_PROCESS_FDS_MAX);
	if (installed_open(how->name, &found, e) < 0)
		return -1;
	OWN_FD program = found;
	pid = fork();
	if (pid == 0)
		child_process_exec(how, program);
	if (pid < 0)
		return err_sys(e, "fork");
	*ret_pid = pid;
	return 0;
}

void child_process_started(struct child_process *c)
{
	c->since_ns = clock_now_ns();
	log_info("program started", "program=%s pid=%d", c->name, (int)c->pid);
}

void child_process_plan_again(struct child_process *c)
{
	uint64_t now = clock_now_ns();

	uint64_t max = c->quick_ends < QUICK_ENDS ? PAUSE_MAX_MS : PAUSE_LONG_MS;

	if (now - c->since_ns > LIVED_MS * CLOCK_MS)
		c->pause_ms = c->quick_ends = 0;
	else
		c->quick_ends++;
	c->again_ns = now + c->pause_ms * CLOCK_MS;
	c->pause_ms = c->pause_ms == 0	      ? PAUSE_MIN_MS
		      : 2 * c->pause_ms < max ? 2 * c->pause_ms
					      : max;
	c->pid = 0;
}

void child_process_failed(struct child_process *c, const struct err *e)
{
	log_error("program cannot be started", "program=%s error=%s", c->name, e->msg);
	c->since_ns = clock_now_ns();
	child_process_plan_again(c);
}

bool child_process_is_due(const struct child_process *c)
{
	return c->pid == 0 && c->again_ns <= clock_now_ns();
}
