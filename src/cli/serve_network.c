/* serve_network.c - checks the network settings before anything is started, by `cordond
 * --check-network`, since this program cannot parse policies. A mistake is an error of cordon
 * serve, and not a line in the log of a program that cannot start. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "serve.h"

/* In the child. */
static void NORETURN become_checker(const struct serve *s, const struct serve_precheck *q)
{
	char name[] = "cordond", verb[] = "--check-network", presets[CONFIG_NAME_MAX];
	char of_builds[CONFIG_NAME_MAX];
	char *argv[] = { name, verb, presets, of_builds, NULL };

	memcpy(presets, s->config.network_default, sizeof(presets));
	memcpy(of_builds, s->config.build_network, sizeof(of_builds));
	if (dup2(q->in, STDIN_FILENO) < 0 || dup2(q->stderr_fd, STDERR_FILENO) < 0)
		_exit(126);
	serve_precheck_exec(q, q->program, argv);
}

/* Opened as the user of the server, as cordond will: a file that only root can read would pass here
 * and fail there. */
static int open_as_server(const struct serve *s, const char *file)
{
	bool other = geteuid() == 0 && s->uid != 0;
	int fd, sys;

	if (other && (setegid(s->gid) < 0 || seteuid(s->uid) < 0))
		return -1;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	sys = errno;
	if (other && (seteuid(0) < 0 || setegid(0) < 0))
		_exit(126); /* root can always become root again */
	errno = sys;
	return fd;
}

int serve_network(const struct serve *s, struct err *e)
{
	const char *file = s->config.egress_policy;
	struct serve_precheck q = { .name = "cordond",
				    .what = "cordond --check-network",
				    .become = become_checker };

	OWN_FD policy = open_as_server(s, file[0] == '\0' ? "/dev/null" : file);
	if (policy < 0)
		return err_sys(e, "egress_policy: open %s%s", file,
			       errno == EACCES ? " as the user of the server" : "");
	q.in = policy;
	return serve_precheck_run(s, &q, e);
}
