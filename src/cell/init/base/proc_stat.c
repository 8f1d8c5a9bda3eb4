#include "cell/init/base/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cell/init/base/tree_mark.h"
#include "lib/base/io.h"

/* Read the next number, behind which a space or the end must follow, and move *at behind it. */
static bool proc_stat_number(const char **at, long long min, long long max, long long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(*at, &end, 10);
	if (errno != 0 || end == *at || (*end != ' ' && *end != '\n' && *end != '\0') ||
	    *ret < min || *ret > max)
		return false;
	*at = end;
	return true;
}

static bool proc_stat_skip(const char **at, unsigned fields)
{
	for (; fields > 0; fields--) {
		*at += strspn(*at, " ");
		if (**at == '\0')
			return false;
		*at += strcspn(*at, " ");
	}
	return true;
}

/* pid (name) state ppid pgrp session tty tpgid flags ... field 20: number of threads. The name may
 * contain ") R 1 ". The kernel wrote the text behind the last parenthesis. */
bool proc_stat_parse(const char *text, struct proc_stat *ret)
{
	const char *at = text, *name_end = strrchr(text, ')');
	long long pid, parent, group, session, threads;
	char state;

	if (name_end == NULL || !proc_stat_number(&at, 1, INT_MAX, &pid))
		return false;
	if (name_end[1] != ' ' || name_end[2] == '\0' || name_end[3] != ' ')
		return false;
	state = name_end[2];
	at = name_end + 3;
	if (!proc_stat_number(&at, 0, INT_MAX, &parent) ||
	    !proc_stat_number(&at, 0, INT_MAX, &group) ||
	    !proc_stat_number(&at, 0, INT_MAX, &session) || !proc_stat_skip(&at, 13) ||
	    !proc_stat_number(&at, 0, INT_MAX, &threads))
		return false;
	ret->pid = (pid_t)pid;
	ret->parent = (pid_t)parent;
	ret->group = (pid_t)group;
	ret->session = (pid_t)session;
	/* A process whose first thread has exited shows as a zombie while other threads run. */
	ret->has_first = state != 'Z' && state != 'X' && state != 'x';
	ret->alive = ret->has_first || threads > 1;
	ret->threads = (int)threads;
	return true;
}

bool proc_stat_parse_limits(const char *text, uint64_t *ret)
{
	const char *word = tree_mark_line(), *at = strstr(text, word);
	char *end;
	unsigned long long n;

	if (at == NULL)
		return false;
	at += strlen(word);
	at += strspn(at, " ");
	at += strcspn(at, " \n"); /* behind the soft limit, which the process itself may change */
	at += strspn(at, " ");
	if (strncmp(at, "unlimited", 9) == 0) {
		*ret = UINT64_MAX;
		return true;
	}
	errno = 0;
	n = strtoull(at, &end, 10);
	if (errno != 0 || *at < '0' || *at > '9' || *end != ' ')
		return false;
	*ret = n;
	return true;
}

/* The kernel's struct linux_dirent64, getdents64(2). */
struct proc_stat_entry {
	uint64_t inode;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* Without opendir(3), which allocates: PID 1 of an idle cell has no heap. Calls each() with fd. */
static int proc_stat_walk(int fd, void (*each)(int fd, pid_t pid, void *arg), void *arg)
{
	_Alignas(8) char bytes[2048];
	int count = 0;
	long n = -1;

	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0)
		for (long at = 0; at < n;) {
			const struct proc_stat_entry *e = (const void *)(bytes + at);
			long pid = strtol(e->name, NULL, 10); /* 0 if the name is not a number */

			at += e->size;
			if (pid <= 1 || pid > INT_MAX)
				continue;
			count++;
			if (each != NULL)
				each(fd, (pid_t)pid, arg);
		}
	return n < 0 ? -1 : count;
}

int proc_stat_each(int proc_fd, void (*each)(int proc_fd, pid_t pid, void *arg), void *arg)
{
	OWN_FD fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return proc_stat_walk(fd, each, arg);
}

struct seen_threads {
	int ended;
	bool runs; /* one of them */
};

static void on_thread(int tasks_fd, pid_t tid, void *arg)
{
	struct seen_threads *seen = arg;
	struct proc_stat thread;
	char path[32], text[4096];
	struct err e;

	if (seen->runs)
		return;
	(void)snprintf(path, sizeof(path), "%d/stat", (int)tid);
	if (io_read_file(tasks_fd, path, text, sizeof(text), &e) < 0)
		return;
	seen->runs = !proc_stat_parse(text, &thread) || thread.has_first;
	seen->ended += !seen->runs;
}

/* Threads that have exited stay while another process traces them. The list may end early if
 * threads exit meanwhile: so all must be seen. */
static bool proc_stat_has_thread(int proc_fd, pid_t pid, int threads)
{
	struct seen_threads seen = { 0 };
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/task", (int)pid);
	OWN_FD fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc_stat_walk(fd, on_thread, &seen) < 0 || seen.runs || seen.ended < threads;
}

bool proc_stat_read(int proc_fd, pid_t pid, struct proc_stat *ret)
{
	char path[32], text[4096];
	struct err e;

	(void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
	if (io_read_file(proc_fd, path, text, sizeof(text), &e) < 0 || !proc_stat_parse(text, ret))
		return false;
	if (ret->alive && !ret->has_first)
		ret->alive = proc_stat_has_thread(proc_fd, pid, ret->threads);
	(void)snprintf(path, sizeof(path), "%d/limits", (int)pid);
	/* A zombie has no limits. */
	ret->locks = UINT64_MAX;
	if (io_read_file(proc_fd, path, text, sizeof(text), &e) >= 0 &&
	    !proc_stat_parse_limits(text, &ret->locks))
		ret->locks = UINT64_MAX;
	return true;
}
