#include "storage/disk_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/parent_death.h"
#include "storage/storage_jail.h"

#define CANNOT_EXECUTE 126
#define LEAST_BYTES (4U << 20) /* on disk, of an empty file system */

/* Run in the child, with one pipe for input, output and errors and an empty environment. Status
 * CANNOT_EXECUTE tells disk_tool_run() that the program did not start. */
static void NORETURN disk_tool_execute(const char *const *argv, int out)
{
	char *envp[] = { NULL };
	struct err e;

	if (parent_death_follow(&e) < 0)
		_exit(CANNOT_EXECUTE);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fd != out && dup3(out, fd, 0) < 0)
			_exit(CANNOT_EXECUTE);
	(void)execve(argv[0], (char *const *)(uintptr_t)argv, envp);
	_exit(CANNOT_EXECUTE);
}

/* Read to the end, so that the program is never held up. Keep what fits of the first line. */
static void tool_read_line(int from, char *ret_line, unsigned cap)
{
	char rest[512];
	unsigned got = 0;
	ssize_t n;

	while ((n = read(from, rest, sizeof(rest))) > 0 || (n < 0 && errno == EINTR)) {
		for (ssize_t i = 0; i < n && got + 1 < cap; i++)
			ret_line[got++] = rest[i];
	}
	ret_line[got] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
}

/* Wait without an own deadline: the runner's deadline kills both processes. */
int disk_tool_run(const char *const *argv, int *ret_status, char *ret_line, unsigned cap,
		  struct err *e)
{
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	pid = fork();
	if (pid == 0)
		disk_tool_execute(argv, to);
	if (pid < 0)
		return err_sys(e, "fork");
	fd_close(TAKE_FD(to));
	tool_read_line(from, ret_line, cap);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for %s", argv[0]);
	if (!WIFEXITED(status))
		return err_set(e, ERR_SYSTEM, "%s was killed", argv[0]);
	*ret_status = WEXITSTATUS(status);
	if (*ret_status == CANNOT_EXECUTE)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s cannot be started: install the package e2fsprogs", argv[0]);
	return 0;
}

/* A full disk is recognized by the message or by the free bytes that are left. */
int disk_tool_not_made(int status, const char *line, struct err *e)
{
	struct statvfs fs;

	if (strstr(line, "No space") != NULL || (statvfs(STORAGE_JAIL_TOP, &fs) == 0 &&
						 (uint64_t)fs.f_bavail * fs.f_frsize < LEAST_BYTES))
		return err_set_reason(e, REASON_STORAGE_FULL, "the storage folder is full (mkfs)");
	return err_set(e, ERR_SYSTEM, "mkfs.ext4 failed with status %d: %s", status, line);
}
