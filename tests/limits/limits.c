/*
 * limits: every limit holds, and hitting it gives a result that names it.
 *
 * Theory of operation
 *
 * Each row of the table is one `cordon run` of hog, which runs into one limit on purpose (hog.c),
 * with what must come of it: the exit code, the value of "limit" in the result file, and bounds
 * for numbers. A bound names a field of the result, or one of three things this program sees for
 * itself: the bytes that came out, the number hog printed, and the share of one CPU that was used.
 * Rows that hit no limit are there to show that none is reported without reason, in particular
 * when a command ends of its own will in the way a limit would have ended it.
 *
 * Every row is also held to what is true of any run: the result agrees with the exit code, there
 * is no error, output is marked as cut exactly when the output limit was hit, and the times are
 * possible. After the last row no hog of ours may be alive: each carries a mark in its arguments.
 *
 * Nothing here depends on the cgroup version; the same program runs on v1 and on v2.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rows.h"

#define PATIENCE_SECONDS 60 /* for one row; emulated machines are slow */

/* What one run left behind. */
struct run {
	int exit; /* -1: did not end by itself */
	bool hung;
	long long elapsed_ms;
	long long out_bytes;
	char out[256], err[1024]; /* how they begin, terminated */
	char result[16384];
};

struct setup {
	const char *cordon;
	char mount[PATH_MAX + 16]; /* empty: hog is in the cell already */
	char hog[PATH_MAX];	   /* as seen from inside */
	char mark[32];
};

static volatile sig_atomic_t out_of_patience;

static void on_alarm(int number)
{
	out_of_patience = 1;
}

static void die(const char *what)
{
	(void)printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now_ms(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Where the value of a member of the outermost object begins; NULL if there is none. */
static const char *json_find(const char *text, const char *name)
{
	size_t length = strlen(name);
	int depth = 0;

	for (const char *p = text; *p; p++) {
		const char *start = p + 1;

		depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
		if (*p != '"')
			continue;
		for (p++; *p && *p != '"'; p++)
			if (*p == '\\' && p[1])
				p++;
		if (!*p)
			return NULL;
		if (depth != 1 || (size_t)(p - start) != length || memcmp(start, name, length) != 0)
			continue;
		/* a string with a colon after it is a name */
		start = p + 1 + strspn(p + 1, " \t\r\n");
		if (*start == ':')
			return start + 1 + strspn(start + 1, " \t\r\n");
	}
	return NULL;
}

/* The value as text, without quotes; "" if there is none. Enough for words and numbers. */
static void json_word(const char *text, const char *name, char *word, size_t size)
{
	const char *value = json_find(text, name);
	size_t length;

	word[0] = '\0';
	if (value == NULL)
		return;
	value += *value == '"';
	length = strcspn(value, "\",}] \t\r\n");
	(void)snprintf(word, size, "%.*s", (int)length, value);
}

static bool to_number(const char *text, long long *ret)
{
	char *end = NULL;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	return errno == 0 && end != text && (*end == '\0' || *end == '\n');
}

static bool is_one_of(const char *word, const char *choices)
{
	size_t length = strlen(word);

	for (const char *p = choices; length > 0;) {
		size_t choice = strcspn(p, "|");

		if (choice == length && memcmp(p, word, length) == 0)
			return true;
		if (p[choice] == '\0')
			break;
		p += choice + 1;
	}
	return false;
}

/* Absent signals are null; everything else that is null or missing has no value. */
static bool field_value(const struct run *run, const char *field, long long *ret)
{
	char word[64];
	long long wall;

	if (strcmp(field, "stdout.bytes") == 0) {
		*ret = run->out_bytes;
		return true;
	}
	if (strcmp(field, "stdout.number") == 0)
		return to_number(run->out, ret);
	if (strcmp(field, "cpu.percent") == 0) {
		if (!field_value(run, "cpu_ms", ret) || !field_value(run, "wall_ms", &wall))
			return false;
		*ret = *ret * 100 / (wall > 0 ? wall : 1);
		return true;
	}
	json_word(run->result, field, word, sizeof(word));
	if (strcmp(field, "signal") == 0 && strcmp(word, "null") == 0) {
		*ret = 0;
		return true;
	}
	return to_number(word, ret);
}

/* One failed check: a TAP diagnostic, and the row has failed. */
__attribute__((format(printf, 2, 3))) static void complain(int *failures, const char *format, ...)
{
	va_list arguments;

	(*failures)++;
	(void)printf("# ");
	va_start(arguments, format);
	(void)vprintf(format, arguments);
	va_end(arguments);
	(void)printf("\n");
}

static void check_bound(const struct run *run, const struct bound *bound, int *failures)
{
	long long value;

	if (!field_value(run, bound->field, &value))
		complain(failures, "%s: no number", bound->field);
	else if (value < bound->least || value > bound->most)
		complain(failures, "%s: %lld, not in %lld..%lld", bound->field, value, bound->least,
			 bound->most);
}

static void check_word(const struct run *run, const char *name, const char *choices, int *failures)
{
	char word[64];

	json_word(run->result, name, word, sizeof(word));
	if (!is_one_of(word, choices))
		complain(failures, "%s: %s, expected %s", name, word[0] ? word : "(missing)",
			 choices);
}

/* What holds for every run, whatever the row. */
static void check_always(const struct run *run, const struct row *row, int *failures)
{
	long long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const struct bound always[] = {
		{ "exit_code", row->exit, row->exit },
		/* the driver's clock started earlier and stopped later; one for rounding */
		{ "wall_ms", 0, run->elapsed_ms + 1 },
		/* accounting is by ticks on some kernels: some slack */
		{ "cpu_ms", 0, (run->elapsed_ms + 200) * cpus },
		{ "memory_peak_bytes", 1, ANY },
		{ "pids_peak", 1, ANY },
		{ "disk_bytes", 0, ANY },
	};

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		check_bound(run, &always[i], failures);
	check_word(run, "error", "null", failures);
	check_word(run, "limit", row->limit, failures);
	check_word(run, "output_truncated", strcmp(row->limit, "output") ? "false" : "true",
		   failures);
}

static int check(const struct run *run, const struct row *row)
{
	int failures = 0;

	if (run->hung)
		complain(&failures, "did not end in %d s", PATIENCE_SECONDS);
	if (run->exit != row->exit)
		complain(&failures, "exit code %d, expected %d", run->exit, row->exit);
	check_always(run, row, &failures);
	for (size_t i = 0; i < sizeof(row->bounds) / sizeof(row->bounds[0]); i++)
		if (row->bounds[i].field)
			check_bound(run, &row->bounds[i], &failures);
	return failures;
}

/* An argument vector that owns its words. */
struct command {
	char *argv[48];
	size_t argc;
	char store[4 * PATH_MAX];
	size_t used;
};

static void command_add(struct command *command, const char *word, size_t length)
{
	char *copy = command->store + command->used;

	if (command->argc + 2 > sizeof(command->argv) / sizeof(command->argv[0]) ||
	    length >= sizeof(command->store) - command->used) {
		errno = E2BIG;
		die("command line");
	}
	memcpy(copy, word, length);
	copy[length] = '\0';
	command->used += length + 1;
	command->argv[command->argc++] = copy;
	command->argv[command->argc] = NULL;
}

static void command_add_one(struct command *command, const char *word)
{
	command_add(command, word, strlen(word));
}

static void command_add_words(struct command *command, const char *words)
{
	for (const char *p = words + strspn(words, " "); *p; p += strspn(p, " ")) {
		size_t length = strcspn(p, " ");

		command_add(command, p, length);
		p += length;
	}
}

static void command_for_row(struct command *command, const struct setup *setup,
			    const struct row *row, const char *result)
{
	command_add_one(command, setup->cordon);
	command_add_words(command, "run --result");
	command_add_one(command, result);
	if (setup->mount[0]) {
		command_add_one(command, "--mount");
		command_add_one(command, setup->mount);
	}
	command_add_words(command, row->options);
	command_add_one(command, "--");
	command_add_one(command, setup->hog);
	command_add_words(command, row->verb);
	command_add_one(command, setup->mark);
}

static pid_t spawn(const struct command *command, int out, int err)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t child = fork();

	if (none == -1 || child == -1)
		die("spawn");
	if (child == 0) {
		/* a group of its own, so that a run without end can be ended as a whole */
		(void)setpgid(0, 0);
		if (dup2(none, 0) != -1 && dup2(out, 1) != -1 && dup2(err, 2) != -1)
			(void)execv(command->argv[0], command->argv);
		_exit(98);
	}
	(void)close(none);
	(void)setpgid(child, child);
	return child;
}

/* Reads once; keeps the beginning, counts the rest. False at the end of the stream. */
static bool drain(int fd, char *text, size_t size, long long *bytes)
{
	char block[65536];
	ssize_t got = read(fd, block, sizeof(block));

	if (got <= 0)
		return got == -1 && errno == EINTR;
	for (ssize_t i = 0; i < got && *bytes + i + 1 < (long long)size; i++)
		text[*bytes + i] = block[i];
	*bytes += got;
	return true;
}

/* Until both streams end: they do when the last process that holds them is gone. */
static void collect(struct run *run, int out, int err)
{
	struct pollfd streams[] = { { .fd = out, .events = POLLIN },
				    { .fd = err, .events = POLLIN } };
	long long err_bytes = 0;

	while (!out_of_patience && (streams[0].fd != -1 || streams[1].fd != -1)) {
		if (poll(streams, 2, -1) <= 0)
			continue;
		if (streams[0].revents && !drain(out, run->out, sizeof(run->out), &run->out_bytes))
			streams[0].fd = -1;
		if (streams[1].revents && !drain(err, run->err, sizeof(run->err), &err_bytes))
			streams[1].fd = -1;
	}
}

/* The exit code, or -1 if the process has not ended by itself. */
static int finish(pid_t child)
{
	int status = 0;

	do {
		if (out_of_patience)
			(void)kill(-child, SIGKILL);
	} while (waitpid(child, &status, 0) == -1 && errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void read_result(struct run *run, const char *path)
{
	FILE *file = fopen(path, "re");

	if (file == NULL)
		return;
	(void)fread(run->result, 1, sizeof(run->result) - 1, file);
	(void)fclose(file);
	(void)unlink(path);
}

static void run_row(const struct setup *setup, const struct row *row, struct run *run)
{
	/* rings every second once it has begun: a signal that comes between a check and the call
	 * it shall interrupt must not be the last one */
	const struct itimerval patience = { .it_value = { .tv_sec = PATIENCE_SECONDS },
					    .it_interval = { .tv_sec = 1 } };
	const struct itimerval rest = { 0 };
	static struct command command;
	char result[64];
	int out[2], err[2];
	long long start = now_ms();
	pid_t child;

	memset(run, 0, sizeof(*run));
	memset(&command, 0, sizeof(command));
	/* the name is new each time: an old result must not pass for this one's */
	(void)snprintf(result, sizeof(result), "/tmp/limits-%d-%zu.json", (int)getpid(),
		       (size_t)(row - rows));
	(void)unlink(result);
	if (pipe2(out, O_CLOEXEC) == -1 || pipe2(err, O_CLOEXEC) == -1)
		die("pipe2");
	command_for_row(&command, setup, row, result);
	out_of_patience = 0;
	(void)setitimer(ITIMER_REAL, &patience, NULL);
	child = spawn(&command, out[1], err[1]);
	(void)close(out[1]);
	(void)close(err[1]);
	collect(run, out[0], err[0]);
	run->exit = finish(child);
	(void)setitimer(ITIMER_REAL, &rest, NULL);
	run->hung = out_of_patience;
	run->elapsed_ms = now_ms() - start;
	(void)close(out[0]);
	(void)close(err[0]);
	read_result(run, result);
}

/* What a person needs to see why: each line of stderr, and the whole result. */
static void explain(const struct run *run, const struct row *row)
{
	(void)printf("# cordon run %s -- hog %s\n", row->options, row->verb);
	for (const char *p = run->err; *p; p += strcspn(p, "\n"), p += *p == '\n')
		(void)printf("# stderr: %.*s\n", (int)strcspn(p, "\n"), p);
	(void)printf("# result: %.*s\n", (int)strcspn(run->result, "\n"), run->result);
}

static bool has_mark(const char *pid, const char *mark)
{
	char path[64], text[4096];
	bool found = false;
	size_t got;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	got = fread(text, 1, sizeof(text) - 1, file);
	text[got] = '\0';
	for (size_t at = 0; at < got && !found; at += strlen(text + at) + 1)
		found = strcmp(text + at, mark) == 0;
	(void)fclose(file);
	return found;
}

static int count_marked(const char *mark)
{
	DIR *processes = opendir("/proc");
	int count = 0;

	if (processes == NULL)
		die("/proc");
	for (struct dirent *entry; (entry = readdir(processes)) != NULL;)
		if (isdigit((unsigned char)entry->d_name[0]) && has_mark(entry->d_name, mark))
			count++;
	(void)closedir(processes);
	return count;
}

/* The kernel may still be busy taking the last cell apart: a moment is allowed. */
static bool none_left(const char *mark)
{
	const struct timespec moment = { .tv_nsec = 100 * 1000 * 1000 };
	int left = count_marked(mark);

	for (int i = 0; i < 50 && left > 0; i++) {
		(void)nanosleep(&moment, NULL);
		left = count_marked(mark);
	}
	if (left > 0)
		(void)printf("# %d processes outlived their cell\n", left);
	return left == 0;
}

static void prepare(struct setup *setup, const char *cordon, const char *hog, bool inside)
{
	char path[PATH_MAX];
	char *slash;

	setup->cordon = cordon;
	(void)snprintf(setup->mark, sizeof(setup->mark), "@limits-%d", (int)getpid());
	if (inside) {
		(void)snprintf(setup->hog, sizeof(setup->hog), "%s", hog);
		return;
	}
	if (realpath(hog, path) == NULL)
		die(hog);
	slash = strrchr(path, '/');
	(void)snprintf(setup->hog, sizeof(setup->hog), "/probe/%s", slash + 1);
	*slash = '\0';
	(void)snprintf(setup->mount, sizeof(setup->mount), "%s:/probe:ro", path);
}

static bool selected(const struct row *row, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (strstr(row->name, argv[i]))
			return true;
	return argc == 0;
}

int main(int argc, char **argv)
{
	static struct setup setup;
	static struct run run;
	const struct sigaction action = { .sa_handler = on_alarm }; /* no restart: poll must end */
	bool inside = argc > 1 && strcmp(argv[1], "--inside") == 0;
	int number = 0, plan = 1, failed = 0;

	argc -= 1 + inside;
	argv += 1 + inside;
	if (argc < 2) {
		(void)fprintf(stderr,
			      "usage: limits [--inside] CORDON HOG [PART-OF-A-ROW'S-NAME]...\n"
			      "--inside: HOG is a path in the cell, nothing is mounted\n");
		return 2;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	(void)sigaction(SIGALRM, &action, NULL);
	prepare(&setup, argv[0], argv[1], inside);
	for (size_t i = 0; i < ROWS; i++)
		plan += selected(&rows[i], argc - 2, argv + 2);
	(void)printf("1..%d\n", plan);
	for (size_t i = 0; i < ROWS; i++) {
		bool bad;

		if (!selected(&rows[i], argc - 2, argv + 2))
			continue;
		run_row(&setup, &rows[i], &run);
		bad = check(&run, &rows[i]) > 0;
		if (bad)
			explain(&run, &rows[i]);
		(void)printf("%sok %d - %s\n", bad ? "not " : "", ++number, rows[i].name);
		failed += bad;
	}
	if (!none_left(setup.mark)) {
		(void)printf("not ");
		failed++;
	}
	(void)printf("ok %d - no process is left\n", ++number);
	return failed > 0;
}
