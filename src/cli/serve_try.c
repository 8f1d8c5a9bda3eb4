/* serve_try.c - questions to other programs, answered by how they end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "serve.h"

#define TRY_S 10
#define WORDS_MAX 1024

/* Warnings may come before. */
static char *last_line(char *text)
{
	size_t n = strlen(text);
	char *before;

	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	before = strrchr(text, '\n');
	return before == NULL ? text : before + 1;
}

int serve_hear(const char *what, pid_t pid, int said, struct err *e)
{
	char text[sizeof(e->msg)] = "", *words;
	size_t n = 0;
	ssize_t got;
	int status;

	while (n < sizeof(text) - 1 && ((got = read(said, text + n, sizeof(text) - 1 - n)) > 0 ||
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

/* In the child. Signals that the supervisor blocks would stay so. */
static void NORETURN become_next(const struct serve *s, int said, const char *path)
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
	    dup2(said, STDERR_FILENO) < 0)
		_exit(126);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(TRY_S);
	(void)execve(path, argv, environ);
	_exit(127);
}

int serve_try(const struct serve *s, struct err *e)
{
	char path[PATH_MAX];
	int ends[2];
	pid_t pid;

	if (child_beside("cordon", path, sizeof(path), e) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD hears = ends[0];
	pid = fork();
	if (pid == 0)
		become_next(s, ends[1], path);
	(void)close(ends[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	return serve_hear("cordon serve --check", pid, hears, e);
}
