#include "cell/kernel/guest_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/own.h"

#define TOOL_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MISSING 127 /* the exit code of a shell for a missing command */
#define SAID_MAX 160

/* In the child. A fixed environment makes the tools' output independent of the caller's language.
 */
static NORETURN void guest_tool_become(const struct guest_tool *t, int null, int said)
{
	static char path[] = TOOL_PATH, lang[] = "LC_ALL=C",
		    debian[] = "DEBIAN_FRONTEND=noninteractive";
	char *env[] = { path, lang, debian, NULL };

	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(t->in < 0 ? null : t->in, STDIN_FILENO) < 0 ||
	    dup2(t->out < 0 ? null : t->out, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0 ||
	    (t->dir >= 0 && fchdir(t->dir) < 0))
		_exit(1);
	environ = env;
	(void)execvp(t->argv[0], (char *const *)(uintptr_t)t->argv);
	_exit(MISSING);
}

/* The last line of the tool's output, without its end of line. */
static void guest_tool_last_line(int said, char *ret_text, size_t cap)
{
	off_t end = lseek(said, 0, SEEK_END),
	      from = end > (off_t)cap - 1 ? end - (off_t)cap + 1 : 0;
	ssize_t n = pread(said, ret_text, cap - 1, from);
	char *line;

	ret_text[n < 0 ? 0 : n] = '\0';
	for (size_t len = strlen(ret_text); len > 0 && ret_text[len - 1] == '\n';)
		ret_text[--len] = '\0';
	line = strrchr(ret_text, '\n');
	if (line != NULL)
		memmove(ret_text, line + 1, strlen(line + 1) + 1);
}

/* Without a deadline: downloads take as long as they take. */
int guest_tool_run(const struct guest_tool *t, struct err *e)
{
	OWN_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);
	OWN_FD said = memfd_create("stderr", MFD_CLOEXEC);
	char text[SAID_MAX];
	int status = 0;
	pid_t pid;

	if (null < 0 || said < 0)
		return err_sys(e, "run %s", t->argv[0]);
	pid = fork();
	if (pid == 0)
		guest_tool_become(t, null, said);
	if (pid < 0)
		return err_sys(e, "run %s", t->argv[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for %s", t->argv[0]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == MISSING)
		return err_set(e, ERR_UNSUPPORTED, "the program %s is not installed", t->argv[0]);
	guest_tool_last_line(said, text, sizeof(text));
	return err_set(e, ERR_SYSTEM, "%s failed: %s", t->argv[0], text);
}

int guest_tool_read(const char *const *argv, char *ret_text, size_t cap, struct err *e)
{
	OWN_FD out = memfd_create("stdout", MFD_CLOEXEC);
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = -1, .out = out };
	ssize_t n;

	if (out < 0)
		return err_sys(e, "run %s", argv[0]);
	if (guest_tool_run(&t, e) < 0)
		return -1;
	n = pread(out, ret_text, cap - 1, 0);
	ret_text[n < 0 ? 0 : n] = '\0';
	return 0;
}
