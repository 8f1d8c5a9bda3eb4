/* test.h - the unit-test harness: one process per test, TAP on stdout.
 *
 *	static void adds(void) { CHECK(1 + 1 == 2); }
 *	TEST_MAIN({ "adds", adds })
 */
#ifndef CORDON_TESTS_UNIT_TEST_H
#define CORDON_TESTS_UNIT_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST_SKIP_STATUS 77

/* Ends the test as failed, saying where. */
#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); \
			(void)fflush(stdout);                               \
			_exit(1);                                           \
		}                                                           \
	} while (0)

/* Ends the test as failed, where it must not come to. */
#define FAIL(why)                                                 \
	do {                                                      \
		printf("# %s:%d: %s\n", __FILE__, __LINE__, why); \
		(void)fflush(stdout);                             \
		_exit(1);                                         \
	} while (0)

#define CHECK_STR(got, want)                                                                     \
	do {                                                                                     \
		if (strcmp((got), (want)) != 0) {                                                \
			printf("# %s:%d: '%s', want '%s'\n", __FILE__, __LINE__, (got), (want)); \
			(void)fflush(stdout);                                                    \
			_exit(1);                                                                \
		}                                                                                \
	} while (0)

/* Ends the test as skipped, saying why. */
#define SKIP(why)                               \
	do {                                    \
		printf("# skipped: %s\n", why); \
		(void)fflush(stdout);           \
		_exit(TEST_SKIP_STATUS);        \
	} while (0)

static inline int test_run_all(const struct test *tests, size_t n)
{
	int failures = 0;

	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++) {
		int status = -1;
		pid_t pid;

		(void)fflush(stdout);
		pid = fork();
		if (pid == 0) {
			(void)alarm(60);
			tests[i].run();
			(void)fflush(stdout);
			exit(0); /* exit, not _exit: leak checkers report here */
		}
		(void)waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			printf("# killed by signal %d\n", WTERMSIG(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP_STATUS) {
			printf("ok %zu - %s # SKIP see above\n", i + 1, tests[i].name);
		} else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			printf("ok %zu - %s\n", i + 1, tests[i].name);
		} else {
			printf("not ok %zu - %s\n", i + 1, tests[i].name);
			failures++;
		}
	}
	return failures == 0 ? 0 : 1;
}

#define TEST_MAIN(...)                                                        \
	int main(void)                                                        \
	{                                                                     \
		static const struct test tests[] = { __VA_ARGS__ };           \
		return test_run_all(tests, sizeof(tests) / sizeof(tests[0])); \
	}

#endif
