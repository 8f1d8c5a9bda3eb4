#include "doctor_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "own.h"
#include "run.h"

#define CLEAN_MS 10000 /* for the keeper of a trial that was killed */

/* What a trial prints. The bytes beyond are read and dropped. */
struct output {
	int fd; /* owned; -1 at its end */
	char text[4096];
	size_t len;
};

static void exec_run(const struct trial *t, const int out[2], const int errors[2], int result)
{
	char path[32], *argv[TRIAL_WORDS_MAX + 2] = { (char *)(uintptr_t) "--result", path };
	int n = 2, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", result);
	for (size_t i = 0; i < TRIAL_WORDS_MAX && t->words[i] != NULL; i++)
		argv[n++] = (char *)(uintptr_t)t->words[i];
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(out[1], STDOUT_FILENO);
	(void)dup2(errors[1], STDERR_FILENO);
	_exit(run_main(n, argv));
}

static void read_some(struct output *o)
{
	char more[4096];
	ssize_t n = read(o->fd, more, sizeof(more));
	size_t room = sizeof(o->text) - 1 - o->len;

	if (n <= 0) {
		fd_close(TAKE_FD(o->fd));
		return;
	}
	if ((size_t)n < room)
		room = (size_t)n;
	memcpy(o->text + o->len, more, room);
	o->len += room;
	o->text[o->len] = '\0';
}

/* Until both ends are closed: by the command, by cordon run, and by its keeper. False: that did not
 * happen in time. */
static bool read_all(struct output *a, struct output *b, uint64_t end_ns)
{
	while (a->fd >= 0 || b->fd >= 0) {
		struct pollfd p[] = { { .fd = a->fd, .events = POLLIN },
				      { .fd = b->fd, .events = POLLIN } };
		uint64_t now = clock_now_ns();

		if (now >= end_ns)
			return false;
		if (poll(p, 2, (int)((end_ns - now) / CLOCK_MS) + 1) < 0 && errno != EINTR)
			return false;
		if (p[0].revents != 0)
			read_some(a);
		if (p[1].revents != 0)
			read_some(b);
	}
	return true;
}

/* The last line is the reason, without the program's name. */
static void split_errors(struct output *o, struct trial_result *ret)
{
	static const char name[] = "cordon: ";
	char *line, *end = o->text + o->len;

	while (end > o->text && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(o->text, '\n');
	line = line == NULL ? o->text : line + 1;
	if (line > o->text)
		(void)snprintf(ret->console, sizeof(ret->console), "%.*s", (int)(line - o->text),
			       o->text);
	if (strncmp(line, name, strlen(name)) == 0)
		line += strlen(name);
	(void)snprintf(ret->why, sizeof(ret->why), "%.250s", line);
}

static void judge(const struct trial *t, int status, bool in_time, struct output *out,
		  struct output *errors, struct trial_result *ret)
{
	ret->ok = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
		  strcmp(out->text, t->expected) == 0;
	if (ret->ok)
		return;
	split_errors(errors, ret);
	if (!in_time)
		(void)snprintf(ret->why, sizeof(ret->why), "it did not end in %u s",
			       t->bound_ms / 1000);
	else if (ret->why[0] == '\0' && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		(void)snprintf(ret->why, sizeof(ret->why),
			       "the program ran, but its output did not come");
	else if (ret->why[0] == '\0')
		(void)snprintf(ret->why, sizeof(ret->why), "it ended with %s %d",
			       WIFEXITED(status) ? "code" : "signal",
			       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void wait_and_judge(const struct trial *t, pid_t pid, int out, int errors,
			   struct trial_result *ret)
{
	struct output o = { .fd = out }, e = { .fd = errors };
	uint64_t begin = clock_now_ns();
	bool in_time = read_all(&o, &e, begin + t->bound_ms * CLOCK_MS);
	int status = 0;

	if (!in_time) {
		(void)kill(pid, SIGKILL);
		(void)read_all(&o, &e, clock_now_ns() + CLEAN_MS * CLOCK_MS);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	ret->ms = (unsigned)((clock_now_ns() - begin) / CLOCK_MS);
	judge(t, status, in_time, &o, &e, ret);
	fd_close(o.fd);
	fd_close(e.fd);
}

void trial_run(const struct trial *t, struct trial_result *ret)
{
	OWN_FD result = memfd_create("result", MFD_CLOEXEC);
	int out[2], errors[2];
	char json[8192] = "";
	pid_t pid;

	*ret = (struct trial_result){ .why = "no pipe, or no process" };
	if (result < 0 || pipe2(out, O_CLOEXEC) < 0)
		return;
	OWN_FD out_to = out[1];
	if (pipe2(errors, O_CLOEXEC) < 0) {
		fd_close(out[0]);
		return;
	}
	OWN_FD errors_to = errors[1];
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		exec_run(t, out, errors, result);
	fd_close(TAKE_FD(out_to));
	fd_close(TAKE_FD(errors_to));
	if (pid < 0) {
		fd_close(out[0]);
		fd_close(errors[0]);
		return;
	}
	ret->why[0] = '\0';
	wait_and_judge(t, pid, out[0], errors[0], ret);
	if (pread(result, json, sizeof(json) - 1, 0) > 0)
		ret->can_redirect = strstr(json, "\"egress_redirect\":true") != NULL;
}
