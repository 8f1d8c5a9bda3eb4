/* kernel_exec.c - starts the program of a kernel that no parent forks (kernel_process.h). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "io.h"
#include "kernel_process.h"

/* In the child: resets what the server has set, and becomes the kernel. */
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
