#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io.h"

#define WORDS_MAX 4096
#define GOOD "+" /* instead of a failure */

static void NORETURN wait_for_outcome(int fd)
{
	char words[WORDS_MAX];
	size_t n = 0;
	ssize_t got;
	struct err e;

	while (n < sizeof(words) - 1) {
		got = read(fd, words + n, sizeof(words) - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	words[n] = '\0';
	if (strcmp(words, GOOD) == 0)
		_exit(0);
	if (n == 0)
		(void)snprintf(words, sizeof(words), "mcp-gateway: it ended unexpectedly\n");
	IGNORED(io_write_all(2, words, strlen(words), &e), "standard error is closed");
	_exit(1);
}

/* A log of its own each time; the folder may be there. */
static void use_log(const char *path)
{
	char folder[256];
	int fd;

	(void)snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	(void)mkdir(folder, 0755);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0640);
	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	(void)dup2(fd, 1);
	(void)dup2(fd, 2);
	fd_close(fd > 2 ? fd : -1);
}

int daemon_begin(const char *log_path, struct err *e)
{
	int fds[2], nothing;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (pid > 0) {
		fd_close(fds[1]);
		wait_for_outcome(fds[0]);
	}
	fd_close(fds[0]);
	(void)setsid();
	if (chdir("/") < 0)
		return err_sys(e, "chdir");
	nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)dup2(nothing, 0);
	fd_close(nothing);
	use_log(log_path);
	return fds[1];
}

void daemon_report(int fd, const char *failure)
{
	struct err e;

	if (failure == NULL)
		failure = GOOD;
	IGNORED(io_write_all(fd, failure, strlen(failure), &e), "the first process is gone");
	fd_close(fd);
}
