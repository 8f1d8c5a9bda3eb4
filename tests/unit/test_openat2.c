/* Goal: a path with ".." is opened below a root also while another process renames all the time, to
 * which the kernel answers EAGAIN. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/kernel.h"
#include "lib/base/own.h"
#include "support.h"

#define OPENS 20000

static char top[] = "/tmp/cordon-openat2-XXXXXX";

static void NORETURN rename_for_ever(int dir)
{
	for (;;)
		if (renameat(dir, "x", dir, "y") < 0 || renameat(dir, "y", dir, "x") < 0)
			_exit(1);
}

static void asked_again(void)
{
	unsigned failed = 0;
	pid_t pid;

	CHECK(mkdtemp(top) != NULL);
	OWN_FD dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0 && mkdirat(dir, "a", 0755) == 0 && mkdirat(dir, "x", 0755) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		rename_for_ever(dir);
	for (unsigned i = 0; i < OPENS; i++) {
		OWN_FD fd = kernel_openat2(dir, "a/../a/../a", O_PATH | O_CLOEXEC, RESOLVE_IN_ROOT);

		failed += fd < 0;
	}
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	CHECK(failed == 0);
	(void)unlinkat(dir, "x", AT_REMOVEDIR);
	(void)unlinkat(dir, "y", AT_REMOVEDIR);
	CHECK(unlinkat(dir, "a", AT_REMOVEDIR) == 0 && rmdir(top) == 0);
}

TEST_MAIN({ "asked again", asked_again })
