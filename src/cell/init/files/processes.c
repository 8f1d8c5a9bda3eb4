/* processes.c - the built-ins processes and kill. Reads /proc with the rights of the user. A
 * process that exits during the listing is left out. Fields that cannot be read are 0 or "". */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cell/init/base/proc_stat.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "lib/base/units.h"

static struct file_msg_end end;

/* A file, or its beginning, as a string. Return its length. */
static size_t processes_slurp(int dir, const char *name, char *ret, size_t cap)
{
	OWN_FD fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n;

	while (fd >= 0 && got < cap - 1 && (n = read(fd, ret + got, cap - 1 - got)) > 0)
		got += (size_t)n;
	ret[got] = '\0';
	return got;
}

/* The number behind a label. False if there is none. */
static bool processes_labelled(const char *text, const char *label, uint64_t *ret)
{
	const char *at = strstr(text, label);

	if (at == NULL)
		return false;
	at += strlen(label);
	at += strspn(at, " \t");
	if (*at < '0' || *at > '9')
		return false;
	*ret = strtoull(at, NULL, 10);
	return true;
}

static int64_t processes_milliseconds(clockid_t clock)
{
	struct timespec t = { 0 };

	(void)clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

enum { PPID = 4, UTIME = 14, STIME = 15, START = 22, RSS = 24, FIELDS }; /* as proc_pid_stat(5) */

/* stat: pid (comm) state ppid ..., where comm may hold anything, so its end is the last ')'. */
static bool processes_parse_stat(char *text, struct file_msg_process *p)
{
	uint64_t field[FIELDS] = { 0 }, hz = (uint64_t)sysconf(_SC_CLK_TCK);
	char *begin = strchr(text, '('), *at = strrchr(text, ')');

	if (begin == NULL || at == NULL || at < begin || at[1] != ' ' || at[2] <= ' ')
		return false;
	*at = '\0';
	p->name = begin + 1;
	p->state = (uint8_t)at[2];
	at += 3;
	for (int i = PPID; i < FIELDS; i++)
		field[i] = strtoull(at, &at, 10);
	p->ppid = (uint32_t)field[PPID];
	p->cpu_us = (field[UTIME] + field[STIME]) * 1000000 / hz;
	p->rss_bytes = field[RSS] * (uint64_t)sysconf(_SC_PAGESIZE);
	p->start_ms = processes_milliseconds(CLOCK_REALTIME) -
		      processes_milliseconds(CLOCK_BOOTTIME) + (int64_t)(field[START] * 1000 / hz);
	return true;
}

static void processes_join_arguments(char *text, size_t len)
{
	while (len > 0 && text[len - 1] == '\0')
		len--;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
}

static int processes_one_process(int proc, const char *name, struct err *e)
{
	static char stat[4096], status[8192], limits[4096], command[FILE_MSG_PATH_MAX];
	struct file_msg m = { .kind = FILE_MSG_PROCESS };
	uint64_t pid, number;
	struct err ignored;

	if (units_count(name, 1, INT32_MAX, &pid, &ignored) < 0 || pid == (uint64_t)getpid())
		return 0;
	OWN_FD dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 0;
	(void)processes_slurp(dir, "stat", stat, sizeof(stat));
	if (!processes_parse_stat(stat, &m.process))
		return 0;
	(void)processes_slurp(dir, "status", status, sizeof(status));
	(void)processes_slurp(dir, "limits", limits, sizeof(limits));
	processes_join_arguments(command,
				 processes_slurp(dir, "cmdline", command, sizeof(command)));
	m.process.pid = (uint32_t)pid;
	m.process.uid =
		processes_labelled(status, "\nUid:", &number) ? (uint32_t)number : UINT32_MAX;
	m.process.mark = proc_stat_parse_limits(limits, &number) ? number : UINT64_MAX;
	m.process.command = command;
	end.count++;
	return builtin_io_record(&m, e);
}

int processes_list(int argc, char **argv, struct err *e)
{
	DIR *d = opendir("/proc");
	int rc = 0;

	if (d == NULL)
		return builtin_io_fail(e, "open", "/proc");
	for (struct dirent *entry; rc == 0 && (entry = readdir(d)) != NULL;)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			rc = processes_one_process(dirfd(d), entry->d_name, e);
	(void)closedir(d);
	if (rc < 0)
		return -1;
	return builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_END, .end = end }, e);
}

int processes_kill(int argc, char **argv, struct err *e)
{
	uint64_t pid, sig;

	/* 0 or below means a group or all processes. PID 1 ignores signals from the cell. */
	if (units_count(argv[0], 2, INT32_MAX, &pid, e) < 0 ||
	    units_count(argv[1], 0, 64, &sig, e) < 0)
		return -1;
	if (kill((pid_t)pid, (int)sig) < 0)
		return builtin_io_fail(e, "signal", argv[0]);
	return builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_END, .end = { .count = 1 } },
				 e);
}
