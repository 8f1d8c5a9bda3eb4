/* Goal: a worker whose runner has died before it could ask for the signal does not go on. */
#include "storage/parent_death.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "test.h"

enum { GOES_ON = 10, STOPS };

/* In the worker: what parent_death_follow() says, as an exit status of the first process. */
static int follow(void)
{
	struct err e;

	return parent_death_follow(&e) == 0 ? GOES_ON : STOPS;
}

/* In the first process of a pid namespace: a runner, and a worker of it that calls follow(), after
 * the runner's end if `orphan`. */
static int run(int orphan)
{
	int ends[2], answer = 0;
	char got = 0;

	if (pipe(ends) < 0)
		return 1;
	if (fork() == 0) {
		if (fork() == 0) {
			while (orphan && getppid() != 1)
				(void)usleep(1000);
			got = (char)follow();
			_exit(write(ends[1], &got, 1) != 1);
		}
		if (orphan)
			_exit(0);
		(void)pause(); /* ends with the namespace */
	}
	(void)close(ends[1]);
	answer = read(ends[0], &got, 1) == 1 ? got : 1;
	return answer;
}

static void check(int orphan, int want)
{
	int status = -1;
	pid_t pid;

	if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0 && unshare(CLONE_NEWPID) < 0)
		SKIP("no pid namespace");
	pid = fork();
	if (pid == 0)
		_exit(run(orphan));
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == want);
}

static void goes_on_below_a_runner(void)
{
	check(0, GOES_ON);
}

static void stops_as_an_orphan(void)
{
	check(1, STOPS);
}

TEST_MAIN({ "a worker goes on while its runner lives", goes_on_below_a_runner },
	  { "a worker whose runner has died stops", stops_as_an_orphan })
