/* runsc.c - see runsc.h. */
#include "cell/cellctl/runsc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "lib/base/own.h"

#define HOW_TO_GET \
	"`cordon level install gvisor` gets it (Debian 13 has it, Debian 12 its backports)"

static int runsc_check_owner(const char *path, int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "%.150s", path);
	if (!S_ISREG(st.st_mode) || (st.st_mode & S_IXUSR) == 0)
		return err_set(e, ERR_UNSUPPORTED, "%.150s is not a program", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(e, ERR_DENIED, "%.150s can be changed by other users", path);
	return 0;
}

int runsc_open(const char *path, int *ret_fd, struct err *e)
{
	static const char *const usual[] = { "/usr/local/sbin/runsc", "/usr/local/bin/runsc",
					     "/usr/sbin/runsc", "/usr/bin/runsc" };
	const char *found = path;

	OWN_FD fd = path[0] != '\0' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (path[0] != '\0' && fd < 0)
		return err_sys(e, "%.150s", path);
	for (size_t i = 0; fd < 0 && i < COUNT(usual); i++) {
		fd = open(usual[i], O_RDONLY | O_CLOEXEC);
		found = usual[i];
	}
	if (fd < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "level gvisor needs runsc of %u or later: " HOW_TO_GET,
			       RUNSC_OLDEST);
	if (runsc_check_owner(found, fd, e) < 0)
		return -1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

uint32_t runsc_release_of(const char *text)
{
	const char *line = strstr(text, "runsc version ");

	for (const char *at = line; at != NULL && *at != '\0' && *at != '\n'; at++) {
		size_t n = strspn(at, "0123456789");

		if (n == 8)
			return (uint32_t)strtoul(at, NULL, 10);
		at += n > 0 ? n - 1 : 0;
	}
	return 0;
}

static void NORETURN runsc_show_version(int fd, int out)
{
	char name[] = "runsc", word[] = "--version", path[64];
	char *argv[] = { name, word, NULL }, *envp[] = { NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (null >= 0 && dup2(null, 0) >= 0 && dup2(out, 1) >= 0 && dup2(null, 2) >= 0)
		(void)execve(path, argv, envp);
	_exit(127);
}

/* Read until the end, or until the time has passed. */
static void runsc_read_all(int from, char *ret, size_t cap)
{
	uint64_t end_ns = clock_now_ns() + RUNSC_CHECK_MS * CLOCK_MS;
	struct pollfd p = { .fd = from, .events = POLLIN };
	size_t have = 0;
	ssize_t n = 1;

	while (n > 0 && have < cap - 1) {
		uint64_t now = clock_now_ns();

		if (now >= end_ns || poll(&p, 1, (int)((end_ns - now) / CLOCK_MS) + 1) == 0)
			break;
		n = read(from, ret + have, cap - 1 - have);
		have += n > 0 ? (size_t)n : 0;
	}
	ret[have] = '\0';
}

int runsc_check(int fd, uint32_t *ret_release, struct err *e)
{
	char text[512];
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (pid == 0)
		runsc_show_version(fd, to);
	fd_close(TAKE_FD(to));
	runsc_read_all(from, text, sizeof(text));
	(void)kill(pid, SIGKILL); /* it has printed as much as is read */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret_release = runsc_release_of(text);
	if (*ret_release == 0)
		return err_set(e, ERR_UNSUPPORTED, "runsc does not tell its version");
	if (*ret_release < RUNSC_OLDEST)
		return err_set(e, ERR_UNSUPPORTED,
			       "runsc is of %u, and level gvisor needs %u or later: " HOW_TO_GET,
			       *ret_release, RUNSC_OLDEST);
	return 0;
}
