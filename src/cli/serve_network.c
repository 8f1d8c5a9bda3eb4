/* serve_network.c - the operator's settings for the network are read by cordond, which knows what a
 * policy is; but it is asked before anything is started, so that a mistake is told to him, and not
 * to the log of a program that cannot start. */
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "serve.h"

#define NOBODY 65534

/* In the child: without rights, since it parses. */
static void NORETURN become_checker(const struct serve *s, int policy, int said, const char *path)
{
	char name[] = "cordond", verb[] = "--check-network", presets[CONFIG_NAME_MAX];
	char *argv[] = { name, verb, presets, NULL }, *envp[] = { NULL };

	memcpy(presets, s->config.network_default, sizeof(presets));
	if (dup2(policy, STDIN_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0)
		_exit(126);
	if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			      setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(126);
	(void)execve(path, argv, envp);
	_exit(127);
}

int serve_network(const struct serve *s, struct err *e)
{
	const char *file = s->config.egress_policy;
	char path[PATH_MAX];
	int ends[2];
	pid_t pid;

	OWN_FD policy = open(file[0] == '\0' ? "/dev/null" : file, O_RDONLY | O_CLOEXEC);
	if (policy < 0)
		return err_sys(e, "egress_policy: open %s", file);
	if (child_beside("cordond", path, sizeof(path), e) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD hears = ends[0];
	pid = fork();
	if (pid == 0)
		become_checker(s, policy, ends[1], path);
	(void)close(ends[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	return serve_hear("cordond --check-network", pid, hears, e);
}
