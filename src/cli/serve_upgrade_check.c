/* serve_upgrade_check.c - checks that the program on disk would start with the present settings and
 * files. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "serve.h"

#define TRY_S 10
#define WORDS_MAX 1024

/* In the child. Unblocks the signals that the supervisor blocks. */
static void NORETURN become_next(const struct serve *s, const struct serve_precheck *q)
{
	char check[] = "--check";
	char *argv[WORDS_MAX + 2];
	size_t n = 0;
	sigset_t none;
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (; n < WORDS_MAX && s->argv[n] != NULL; n++)
		argv[n] = s->argv[n];
	argv[n++] = check;
	argv[n] = NULL;
	if (nowhere < 0 || dup2(nowhere, STDIN_FILENO) < 0 || dup2(nowhere, STDOUT_FILENO) < 0 ||
	    dup2(q->stderr_fd, STDERR_FILENO) < 0)
		_exit(126);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(TRY_S);
	(void)execve(q->path, argv, environ);
	_exit(127);
}

int serve_upgrade_check(const struct serve *s, struct err *e)
{
	struct serve_precheck q = { .name = "cordon",
				    .what = "cordon serve --check",
				    .become = become_next };

	return serve_precheck_run(s, &q, e);
}
