/* Goal: 0, 1 and 2 stay open whatever is closed, and a program that was started without them has
 * them. */
#include "lib/base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/fd_std.h"
#include "support.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void closes_others(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(fd > STDERR_FILENO);
	fd_close(fd);
	CHECK(!is_open(fd));
	fd_close(-1);
}

/* With CORDON_STRICT=1 the caller is ended; without it nothing happens. */
static void keeps_the_standard_ones(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		int status;
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			fd_close(fd);
			_exit(is_open(fd) ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
#if CORDON_STRICT
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
	}
}

static void fills_what_is_closed(void)
{
	struct stat null, got;
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(0);
		(void)close(2);
		fd_std_fill();
		_exit(stat("/dev/null", &null) == 0 && fstat(0, &got) == 0 &&
				      got.st_rdev == null.st_rdev && is_open(1) && is_open(2)
			      ? 0
			      : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void replaces_standard_ones_only(void)
{
	OWN_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat want, got;

	CHECK(null >= 0 && fstat(null, &want) == 0);
	CHECK(fd_std_replace(0, null) == 0);
	CHECK(fstat(0, &got) == 0 && got.st_rdev == want.st_rdev);
	CHECK(fd_std_replace(null, 1) < 0 && fd_std_replace(-1, 1) < 0);
}

TEST_MAIN({ "closes others", closes_others },
	  { "keeps the standard ones", keeps_the_standard_ones },
	  { "fills what is closed", fills_what_is_closed },
	  { "replaces standard ones only", replaces_standard_ones_only })
