/* serve_precheck.c - runs a program of this installation to check something before the server
 * starts: see serve_precheck_run() in serve.h. Called by serve_tls.c, serve_network.c and
 * serve_upgrade_check.c. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/wait.h>

#include "child_process.h"
#include "kernel.h"
#include "serve.h"

#define NOBODY 65534

/* The error is the last line; warnings may come before it. */
static char *last_line(char *text)
{
	size_t n = strlen(text);
	char *before;

	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	before = strrchr(text, '\n');
	return before == NULL ? text : before + 1;
}

/* Reads what the child prints and waits for its end. */
static int wait_result(const char *what, pid_t pid, int stderr_fd, struct err *e)
{
	char text[sizeof(e->msg)] = "", *words;
	size_t n = 0;
	ssize_t got;
	int status;

	while (n < sizeof(text) - 1 &&
	       ((got = read(stderr_fd, text + n, sizeof(text) - 1 - n)) > 0 ||
		(got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "%s", what);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	words = last_line(text);
	if (words[0] != '\0')
		return err_set(e, ERR_INVALID, "%s", words);
	return err_set(e, ERR_INVALID, "%s: ended with %s %d", what,
		       WIFEXITED(status) ? "status" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int serve_precheck_run(const struct serve *s, struct serve_precheck *q, struct err *e)
{
	int ends[2];
	pid_t pid;

	if (child_process_beside(q->name, q->path, sizeof(q->path), e) < 0)
		return -1;
	/* By descriptor: the program may be in a folder that only this process can enter, such as
	 * /root. */
	OWN_FD program = open(q->path, O_PATH | O_CLOEXEC);
	if (program < 0)
		return err_sys(e, "%s", q->path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD reader = ends[0];
	q->program = program;
	q->stderr_fd = ends[1];
	pid = fork();
	if (pid == 0) {
		q->become(s, q);
		_exit(126);
	}
	fd_close(ends[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	return wait_result(q->what, pid, reader, e);
}

void serve_precheck_exec(const struct serve_precheck *q, int program, char **argv)
{
	char *envp[] = { NULL };

	if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			      setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(126);
	(void)kernel_execveat(program, argv, envp);
	(void)execve(q->path, argv, envp); /* a script: its interpreter opens it by path */
	_exit(127);
}
