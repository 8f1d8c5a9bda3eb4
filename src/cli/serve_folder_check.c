/* serve_folder_check.c - checks that cordond can use its folders.
 *
 * cordond runs as a user of its own, which cannot enter a folder below one that only root may enter
 * (/root, a home): it would end at each start. A child process changes to that user and tries to
 * enter the folders, so that the kernel decides (modes, access lists, mounts). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io.h"
#include "serve.h"

/* In the child: writes the length of the part of the path that cannot be entered (0: all can) to
 * the pipe; an exit status would be too small for it. */
static void NORETURN try_path(const struct serve *s, const char *path, int to)
{
	char part[CONFIG_PATH_MAX];
	size_t failed = 0, n = strlen(path);
	struct err e;

	if (setgroups(0, NULL) < 0 || setresgid(s->gid, s->gid, s->gid) < 0 ||
	    setresuid(s->uid, s->uid, s->uid) < 0)
		_exit(1);
	for (size_t i = 1; i <= n && failed == 0; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (access(part, i == n ? R_OK | W_OK | X_OK : X_OK) < 0)
			failed = i;
	}
	_exit(io_write_all(to, &failed, sizeof(failed), &e) < 0 ? 1 : 0);
}

int serve_folder_check(const struct serve *s, const char *name, const char *path, struct err *e)
{
	size_t failed = 0;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0], to = ends[1];
	pid = fork();
	if (pid == 0)
		try_path(s, path, to);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_sys(e, "fork");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
	    read(from, &failed, sizeof(failed)) != (ssize_t)sizeof(failed))
		return err_set(e, ERR_SYSTEM, "%s: cannot check access as user %u", name, s->uid);
	if (failed == 0)
		return 0;
	return err_set(e, ERR_DENIED,
		       "%s: user %u, which the server runs as, cannot enter %.*s; use a folder "
		       "elsewhere, or allow it",
		       name, s->uid, (int)failed, path);
}
