/* probe.c - tries to break out of the cell it runs in, and says what came of each attempt.
 *
 * Theory of operation: every attack is a row of a table (see probe.h). The probe walks the tables;
 * each row runs in a child of its own, in its own process group, with a watchdog, so that a crash
 * or a hang is an answer like any other, and so that one row cannot prepare the ground for the
 * next. One line per row goes to standard output: "row <tab> id <tab> answer <tab> pass|FAIL".
 *
 * The driver (run.py) compares the number of lines with --list, so that a row that did not run
 * cannot look like one that passed. It also runs the rows that have a control answer outside any
 * cell, as root, to see that the attempt works where nothing stops it.
 *
 *	probe --list [profile user mode]
 *	probe --run profile user mode [key=value ...]
 *	probe --only ID profile user mode [key=value ...]
 *	probe --control [key=value ...]
 *	probe --sibling key=value ...	(canaries in a neighbouring cell)
 *	probe --true, --whoami, --flood N, --where FILE	(small parts other rows execute) */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WATCHDOG_SECONDS = 20, MAX_KEYS = 96, ANSWER_MAX = 256 };

extern char **environ;

struct birth birth;

static const struct table *const tables[] = {
	&paths_table, &links_table,   &proc_table, &pid1_table,	    &mounts_table, &kernel_table,
	&tty_table,   &process_table, &ipc_table,  &resource_table, &socket_table, &net_table,
};

static const char *keys[MAX_KEYS];
static size_t keys_len;

/* The combination the probe was told it runs in. */
static char combo[3];

const char *world(const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < keys_len; i++)
		if (strncmp(keys[i], key, len) == 0 && keys[i][len] == '=')
			return keys[i] + len + 1;
	_exit(99); /* run_child() turns this into "unset" */
}

long world_num(const char *key)
{
	return strtol(world(key), NULL, 10);
}

/* Returns the length of the clause's set and stores its start, or 0 if no clause matches. */
static size_t choose(const char *expect, const char **set)
{
	if (!strchr(expect, ':')) {
		*set = expect;
		return strlen(expect);
	}
	for (const char *p = expect; *p;) {
		size_t len = strcspn(p, " ");
		size_t sel = strcspn(p, ":");
		int ok = 1;

		for (size_t i = 0; i < sel; i++)
			ok &= p[i] == '*' || memchr(combo, p[i], sizeof(combo)) != NULL;
		if (ok) {
			*set = p + sel + 1;
			return len - sel - 1;
		}
		p += len + strspn(p + len, " ");
	}
	return 0;
}

static int accepted(const char *expect, const char *got)
{
	const char *set;
	size_t left = choose(expect, &set);
	size_t want = strlen(got);

	while (left > 0) {
		size_t len = 0;

		while (len < left && set[len] != '|')
			len++;
		if (len == want && strncmp(set, got, len) == 0)
			return 1;
		if (len == left)
			break;
		set += len + 1;
		left -= len + 1;
	}
	return 0;
}

static int set_combo(const char *profile, const char *user, const char *mode)
{
	combo[0] = strcmp(profile, "standard") == 0 ? 'S'
		   : strcmp(profile, "locked") == 0 ? 'L'
						    : 0;
	combo[1] = strcmp(user, "root") == 0 ? 'r' : strcmp(user, "user") == 0 ? 'u' : 0;
	combo[2] = strcmp(mode, "rootful") == 0	 ? 'F'
		   : strcmp(mode, "mapped") == 0 ? 'M'
		   : strcmp(mode, "single") == 0 ? '1'
						 : 0;
	return combo[0] && combo[1] && combo[2] ? 0 : -1;
}

static void take_keys(int argc, char **argv)
{
	for (int i = 0; i < argc && keys_len < MAX_KEYS; i++)
		keys[keys_len++] = argv[i];
}

/* The fork bomb rows leave the cell at its limit until their children are gone. */
static pid_t fork_patiently(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };

	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid >= 0 || errno != EAGAIN)
			return pid;
		(void)nanosleep(&pause, NULL);
	}
	return -1;
}

static void run_child(const struct attack *a, int out)
{
	const char *got;

	(void)setpgid(0, 0);
	(void)alarm(WATCHDOG_SECONDS);
	got = a->run(a);
	if (write(out, got, strlen(got)) < 0)
		_exit(98);
	_exit(0);
}

static const char *run_row(const struct attack *a)
{
	static char got[ANSWER_MAX];
	int fds[2], status = 0;
	long n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return "crash";
	pid = fork_patiently();
	if (pid < 0)
		return "crash";
	if (pid == 0)
		run_child(a, fds[1]);
	(void)setpgid(pid, pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	(void)kill(-pid, SIGKILL);
	n = read(fds[0], got, sizeof(got) - 1);
	(void)close(fds[0]);
	(void)close(fds[1]);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? "hang" : answer_signal(WTERMSIG(status));
	if (WEXITSTATUS(status) == 99)
		return "unset";
	if (n <= 0 || WEXITSTATUS(status) != 0)
		return "crash";
	got[n] = '\0';
	return got;
}

struct totals {
	size_t rows, failed;
};

static void report(const struct attack *a, const char *expect, struct totals *t)
{
	const char *got = run_row(a);
	int ok = accepted(expect, got);

	t->rows++;
	t->failed += !ok;
	(void)printf("row\t%s\t%s\t%s\n", a->id, got, ok ? "pass" : "FAIL");
	(void)fflush(stdout);
}

static int finish(const struct totals *t)
{
	(void)printf("total\t%zu\tpass\t%zu\tfail\t%zu\n", t->rows, t->rows - t->failed, t->failed);
	return t->failed ? 1 : 0;
}

/* Rows after which PID 1 of a guest is gone, which is no escape: key skip=ID,ID. */
static int is_skipped(const char *id)
{
	const char *list = world("skip");
	size_t n = strlen(id);

	for (const char *at = list; at != NULL && (at = strstr(at, id)) != NULL; at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
			return 1;
	return 0;
}

static int run_tables(const char *only)
{
	struct totals t = { 0 };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (size_t j = 0; j < tables[i]->n; j++) {
			const struct attack *a = &tables[i]->rows[j];

			if (only ? strcmp(only, a->id) == 0
				 : !(a->flags & ROW_SOLO) && !is_skipped(a->id))
				report(a, a->expect, &t);
		}
	return finish(&t);
}

static int run_controls(void)
{
	struct totals t = { 0 };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (size_t j = 0; j < tables[i]->n; j++)
			if (tables[i]->rows[j].control)
				report(&tables[i]->rows[j], tables[i]->rows[j].control, &t);
	return finish(&t);
}

static int list_tables(int resolved)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (size_t j = 0; j < tables[i]->n; j++) {
			const struct attack *a = &tables[i]->rows[j];
			const char *set = a->expect;
			int len = (int)(resolved ? choose(a->expect, &set) : strlen(set));

			(void)printf("%s\t%s\t%s\t%.*s\t%s\t%s\n", a->id, a->section, a->what, len,
				     set, a->control ? a->control : "-",
				     a->flags & ROW_SOLO ? "solo" : "-");
		}
	return 0;
}

static void note_birth(void)
{
	if (!getcwd(birth.cwd, sizeof(birth.cwd)))
		birth.cwd[0] = '\0';
	for (int fd = 3; fd < 1024; fd++)
		birth.extra_fds += fcntl(fd, F_GETFD) >= 0;
	birth.env = environ;
}

static int flood(long bytes)
{
	static char line[4096];

	memset(line, 'x', sizeof(line));
	for (size_t i = 63; i < sizeof(line); i += 64)
		line[i] = '\n';
	for (long n = 0; n < bytes; n += (long)sizeof(line))
		if (write(1, line, sizeof(line)) < 0)
			return 1;
	return 0;
}

/* For a cell started with a hostile --cwd: is FILE, a secret of the host, here? */
static int where(const char *file)
{
	int here = access(file, F_OK) == 0 || birth.cwd[0] != '/';

	(void)printf("%s\n", here ? "escaped" : "contained");
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	note_birth();
	if (strcmp(mode, "--true") == 0)
		return 0;
	if (strcmp(mode, "--whoami") == 0)
		return geteuid() == 0 ? 10 : 11;
	if (strcmp(mode, "--flood") == 0 && argc == 3)
		return flood(strtol(argv[2], NULL, 10));
	if (strcmp(mode, "--where") == 0 && argc == 3)
		return where(argv[2]);
	if (strcmp(mode, "--list") == 0 && argc == 2)
		return list_tables(0);
	if (strcmp(mode, "--list") == 0 && argc == 5 && set_combo(argv[2], argv[3], argv[4]) == 0)
		return list_tables(1);
	if (strcmp(mode, "--control") == 0) {
		take_keys(argc - 2, argv + 2);
		return run_controls();
	}
	if (strcmp(mode, "--sibling") == 0) {
		take_keys(argc - 2, argv + 2);
		return sibling_main();
	}
	if (strcmp(mode, "--run") == 0 && argc >= 5 && set_combo(argv[2], argv[3], argv[4]) == 0) {
		take_keys(argc - 5, argv + 5);
		return run_tables(NULL);
	}
	if (strcmp(mode, "--only") == 0 && argc >= 6 && set_combo(argv[3], argv[4], argv[5]) == 0) {
		take_keys(argc - 6, argv + 6);
		return run_tables(argv[2]);
	}
	(void)fprintf(stderr, "usage: probe --list | --run PROFILE USER MODE [KEY=VALUE ...]\n");
	return 2;
}
