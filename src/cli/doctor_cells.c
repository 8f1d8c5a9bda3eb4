/* doctor_cells.c - the part of cordon doctor that counts cells of servers that are gone, or lists
 * them with the commands that remove them. It removes them itself only with --clean: the cells of a
 * server that is stopped, or just being restarted, are sessions that it would continue. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "io.h"
#include "orphans.h"

#define CLEAN_TRIES 100 /* of CLEAN_MS each: processes of a cell end after its PID 1 */
#define CLEAN_MS 50
/* A keeper that has just ended may still lock a part of a cell: that part is found later. */
#define ROUNDS 20
#define ROUND_MS 100

static void print_cell(const struct orphan *c)
{
	(void)fprintf(doctor_out(), "cell      %-18s      ", c->id[0] == '\0' ? "?" : c->id);
	if (c->pid1 == 0)
		(void)fprintf(doctor_out(), "ended, its cgroups are left\n");
	else
		(void)fprintf(doctor_out(), "PID 1 is %d, %u processes%s\n", (int)c->pid1,
			      c->processes, c->frozen ? ", frozen: it cannot end by itself" : "");
	(void)fprintf(doctor_out(), "%-34s-> ", "");
	if (c->pid1 != 0)
		(void)fprintf(doctor_out(), "kill -9 %d%s", (int)c->pid1,
			      c->ndirs > 0 ? "; sleep 1; " : "");
	for (unsigned i = 0; i < c->ndirs; i++)
		(void)fprintf(doctor_out(), "%s%s", i == 0 ? "rmdir " : " ", c->dirs[i]);
	(void)fprintf(doctor_out(), "\n");
}

static void print_each(const struct orphans *o)
{
	FILE *to = doctor_out();

	for (size_t i = 0; i < o->n; i++)
		print_cell(&o->list[i]);
	for (size_t i = 0; i < o->ngroups; i++)
		(void)fprintf(to, "server    %-18s      gone\n%-34s-> rmdir %s\n", "", "",
			      o->groups[i]);
	if (o->more)
		(void)fprintf(to, "there are more of them\n");
}

void doctor_cells(bool all)
{
	FILE *to = doctor_out();
	size_t alive = 0;
	struct orphans o;
	struct err e;

	if (orphans_find(&o, &e) < 0) {
		(void)fprintf(to, "\ncells of no running server cannot be listed: %s\n", e.msg);
		return;
	}
	for (size_t i = 0; i < o.n; i++)
		alive += o.list[i].pid1 != 0;
	if (o.n > 0 || o.ngroups > 0)
		(void)fprintf(
			to,
			"\n%zu%s cells of no running server (%zu with processes), %zu folders "
			"of servers that are gone\n%s",
			o.n, o.more ? " or more" : "", alive, o.ngroups,
			all ? ""
			    : "-> cordon doctor --cells lists them, cordon doctor --clean "
			      "removes them; the sessions of a\n   server that is stopped and "
			      "will start again are among them\n");
	if (all)
		print_each(&o);
	orphans_release(&o);
}

/* ---- removal */

/* The process may have ended, and its number be another's: it is held first, then looked at. */
static int kill_pid1(pid_t pid, struct err *e)
{
	OWN_FD fd = (int)syscall(SYS_pidfd_open, pid, 0);
	char path[32], name[32] = "";

	if (fd < 0)
		return errno == ESRCH ? 0 : err_sys(e, "PID 1 is %d", (int)pid);
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (io_read_file(AT_FDCWD, path, name, sizeof(name), e) < 0 || !orphans_is_pid1_name(name))
		return 0;
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		return err_sys(e, "kill %d", (int)pid);
	return 0;
}

static int remove_dir(const char *path, struct err *e)
{
	const struct timespec pause = { .tv_nsec = CLEAN_MS * 1000000L };

	for (unsigned i = 0; i < CLEAN_TRIES; i++) {
		if (rmdir(path) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			break;
		(void)nanosleep(&pause, NULL);
	}
	return err_sys(e, "rmdir %.200s", path);
}

static int clean_cell(const struct orphan *c, struct err *e)
{
	if (c->pid1 != 0 && kill_pid1(c->pid1, e) < 0)
		return -1;
	for (unsigned i = 0; i < c->ndirs; i++)
		if (remove_dir(c->dirs[i], e) < 0)
			return -1;
	return 0;
}

static bool report(const char *what, const char *name, int done, const struct err *e)
{
	(void)printf("%-9s %-23s %s\n", what, name, done == 0 ? "removed" : e->msg);
	return done == 0;
}

static bool is_named(const struct orphan *c, int n, char **names)
{
	for (int i = 0; i < n; i++)
		if (strcmp(c->id, names[i]) == 0)
			return true;
	return n == 0;
}

/* One round. Returns how many were found, or -1; *ret_all: all of these were removed. */
static int clean_once(int n, char **names, bool *ret_all, struct err *e)
{
	struct orphans o;
	int found = 0;

	if (orphans_find(&o, e) < 0)
		return -1;
	for (size_t i = 0; i < o.n; i++) {
		const struct orphan *c = &o.list[i];

		if (!is_named(c, n, names))
			continue;
		found++;
		*ret_all = report("cell", c->id[0] == '\0' ? "?" : c->id, clean_cell(c, e), e) &&
			   *ret_all;
	}
	for (size_t i = 0; i < o.ngroups && n == 0; i++, found++)
		*ret_all = report("server", o.groups[i], remove_dir(o.groups[i], e), e) && *ret_all;
	orphans_release(&o);
	return found;
}

int doctor_clean(int n, char **names)
{
	const struct timespec pause = { .tv_nsec = ROUND_MS * 1000000L };
	bool all = true;
	struct err e;
	int found = 1;

	for (unsigned i = 0; i < ROUNDS && found > 0 && all; i++) {
		if (i > 0)
			(void)nanosleep(&pause, NULL);
		found = clean_once(n, names, &all, &e);
		if (found == 0 && i == 0)
			(void)printf("no cell is without a server\n");
	}
	if (found < 0)
		(void)fprintf(stderr, "cordon doctor: %s\n", e.msg);
	return found == 0 && all ? 0 : 1;
}
