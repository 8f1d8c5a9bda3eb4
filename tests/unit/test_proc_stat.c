/* Goal: a process can call itself anything; what we read about it is still what the kernel says. */
#include "cell/init/base/proc_stat.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/init/base/tree_mark.h"
#include "support.h"

#define REST " 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 "

static const struct {
	const char *name, *text;
	bool good, alive;
	int pid, parent, group, session;
} stats[] = {
	{ "plain", "42 (cat) S 1 40 39" REST "1 0 99\n", true, true, 42, 1, 40, 39 },
	{ "a name of fields", "42 (x) Z 7 7 7" REST "1 0) R 1 40 39" REST "1 0\n", true, true, 42,
	  1, 40, 39 },
	{ "a name with a line", "42 (a\nb) c) T 1 40 39" REST "1 0\n", true, true, 42, 1, 40, 39 },
	{ "an empty name", "42 () D 0 0 0" REST "1 0\n", true, true, 42, 0, 0, 0 },
	{ "a zombie", "42 (cat) Z 1 40 39" REST "1 0\n", true, false, 42, 1, 40, 39 },
	{ "dead", "42 (cat) X 1 40 39" REST "0 0\n", true, false, 42, 1, 40, 39 },
	{ "a zombie with threads", "42 (cat) Z 1 40 39" REST "2 0\n", true, true, 42, 1, 40, 39 },
	{ "empty", "", false },
	{ "no name", "42 S 1 40 39" REST "1 0\n", false },
	{ "nothing behind the name", "42 (cat)", false },
	{ "no state", "42 (cat) ", false },
	{ "a long state", "42 (cat) SS 1 40 39" REST "1 0\n", false },
	{ "cut", "42 (cat) S 1 40 39 0 -1 4194560 1 0 0", false },
	{ "no number", "x (cat) S 1 40 39" REST "1 0\n", false },
	{ "number zero", "0 (cat) S 1 40 39" REST "1 0\n", false },
	{ "negative", "42 (cat) S -1 40 39" REST "1 0\n", false },
	{ "too large", "42 (cat) S 1 99999999999 39" REST "1 0\n", false },
};

static void stats_are_read(void)
{
	for (size_t i = 0; i < COUNT(stats); i++) {
		struct proc_stat p = { 0 };

		CHECK_CASE(stats[i].name, proc_stat_parse(stats[i].text, &p) == stats[i].good);
		if (!stats[i].good)
			continue;
		CHECK_CASE(stats[i].name, p.pid == stats[i].pid && p.parent == stats[i].parent);
		CHECK_CASE(stats[i].name,
			   p.group == stats[i].group && p.session == stats[i].session);
		CHECK_CASE(stats[i].name, p.alive == stats[i].alive);
	}
}

#define HEAD "Limit                     Soft Limit           Hard Limit           Units     \n"
#define LOCKS "Max file locks            "

static const struct {
	const char *name, *text;
	bool good;
	uint64_t want;
} limits[] = {
	{ "none", HEAD LOCKS "unlimited            unlimited            locks     \n", true,
	  UINT64_MAX },
	{ "a mark", HEAD LOCKS "4611686018427387903  4611686018427387903  locks     \n", true,
	  4611686018427387903ULL },
	{ "a soft limit does not count",
	  HEAD LOCKS "17                   4096                 locks     \n", true, 4096 },
	{ "zero", HEAD LOCKS "0                    0                    locks     \n", true, 0 },
	{ "missing", HEAD, false, 0 },
	{ "empty", "", false, 0 },
	{ "cut", HEAD LOCKS "17                   40", false, 0 },
	{ "cut before", HEAD LOCKS "17", false, 0 },
	{ "a word", HEAD LOCKS "17                   many                 locks     \n", false, 0 },
	{ "negative", HEAD LOCKS "17                   -5                   locks     \n", false,
	  0 },
	{ "too large", HEAD LOCKS "17                   99999999999999999999 locks     \n", false,
	  0 },
};

static void limits_are_read(void)
{
	for (size_t i = 0; i < COUNT(limits); i++) {
		uint64_t got = 99;

		CHECK_CASE(limits[i].name,
			   proc_stat_parse_limits(limits[i].text, &got) == limits[i].good);
		CHECK_CASE(limits[i].name, got == (limits[i].good ? limits[i].want : 99));
	}
}

static pid_t found;

static void remember(int proc_fd, pid_t pid, void *arg)
{
	CHECK(*(pid_t *)arg < pid); /* in ascending order */
	*(pid_t *)arg = pid;
	if (pid == getpid())
		found = pid;
}

/* The real files of this kernel. */
static void we_find_ourselves(void)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct rlimit mark = { 1234, 123456 };
	struct proc_stat p;
	pid_t last = 0;

	CHECK(setrlimit(RLIMIT_LOCKS, &mark) == 0);
	CHECK(fd >= 0 && proc_stat_each(fd, remember, &last) > 0 && found == getpid());
	CHECK(proc_stat_read(fd, getpid(), &p));
	CHECK(p.pid == getpid() && p.parent == getppid() && p.group == getpgrp() &&
	      p.session == getsid(0));
	CHECK(p.alive && p.locks == 123456);
	CHECK(!proc_stat_read(fd, 0x3fffffff, &p));
}

/* ---- a process whose first thread has exited */

static int told[2], go[2];

static void *wait_and_exit(void *arg)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);
	char byte;

	CHECK(write(told[1], &tid, sizeof(tid)) == (ssize_t)sizeof(tid));
	CHECK(read(go[0], &byte, 1) == 1);
	(void)syscall(SYS_exit, 0);
	return NULL;
}

static pid_t without_first_thread(void)
{
	pid_t pid = fork();
	pthread_t thread;

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	CHECK(pthread_create(&thread, NULL, wait_and_exit, NULL) == 0);
	(void)syscall(SYS_exit, 0);
	_exit(1);
}

static bool wait_until(int proc, pid_t pid, bool alive)
{
	struct proc_stat p = { 0 };

	for (unsigned ms = 0; ms < 10000; ms++) {
		CHECK(proc_stat_read(proc, pid, &p));
		if (!p.has_first && p.alive == alive)
			return p.threads == 2;
		(void)usleep(1000);
	}
	return false;
}

/* It lives while another thread does. One that has exited stays while it is traced. */
static void threads_that_have_exited(void)
{
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid, tid;

	CHECK(proc >= 0 && pipe2(told, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
	pid = without_first_thread();
	CHECK(read(told[0], &tid, sizeof(tid)) == (ssize_t)sizeof(tid) && tid != pid);
	CHECK(wait_until(proc, pid, true));
	CHECK(ptrace(PTRACE_SEIZE, tid, 0, 0) == 0);
	CHECK(write(go[1], "x", 1) == 1);
	CHECK(wait_until(proc, pid, false));
	CHECK(waitpid(tid, NULL, __WALL) == tid && waitpid(pid, NULL, 0) == pid);
}

static void marks_get_smaller(void)
{
	uint64_t first = tree_mark_next(), second = tree_mark_next(), last = tree_mark_next();

	CHECK(first > second && second > last && last > 0);
	CHECK(!tree_mark_is_hiding(first) && !tree_mark_is_hiding(second) &&
	      !tree_mark_is_hiding(last));
	CHECK(tree_mark_is_hiding(last - 1) && tree_mark_is_hiding(0));
	CHECK(!tree_mark_is_hiding(UINT64_MAX) &&
	      !tree_mark_is_hiding(first + 1)); /* not marked yet */
}

/* In a cell in a cell: below our own, and none when there are no more. */
static void marks_run_out(void)
{
	const struct rlimit own = { 3, 3 };

	CHECK(setrlimit(RLIMIT_LOCKS, &own) == 0);
	CHECK(tree_mark_next() == 2 && tree_mark_next() == 1 && tree_mark_next() == 0 &&
	      tree_mark_next() == 0);
	CHECK(!tree_mark_is_hiding(0)); /* some have none now */
}

TEST_MAIN({ "stats are read", stats_are_read }, { "limits are read", limits_are_read },
	  { "we find ourselves", we_find_ourselves },
	  { "threads that have exited", threads_that_have_exited },
	  { "marks get smaller", marks_get_smaller }, { "marks run out", marks_run_out })
