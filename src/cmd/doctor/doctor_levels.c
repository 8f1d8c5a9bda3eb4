/* doctor_levels.c - the part of cordon doctor about the levels: each one's needs are looked for,
 * and then a program is run at it, in the way of `cordon run --level`. Without --quick, "yes" is
 * only printed for a level at which a program has run here. The disk space of the template host at
 * microvm stands beside it.
 *
 * The guest of level microvm boots from a root made for the trial: a first image of the machine's
 * /usr takes minutes. The root has one program, independent of other files: cordon-init, asked for
 * its version. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cell/cellctl/installed.h"
#include "cell/cellctl/orphans.h"
#include "cell/kernel/guest_machine.h"
#include "cmd/base/level_machine.h"
#include "cmd/doctor/doctor.h"
#include "lib/base/io.h"
#include "lib/base/rmtree.h"
#include "lib/config/config.h"

/* ---- cells of gone servers
 *
 * cordon doctor counts them, or lists them with the commands that remove them. Only --clean removes
 * them: the cells of a stopped or restarting server are sessions that it continues. */

#define CLEAN_TRIES 100 /* of CLEAN_MS each: processes of a cell end after its PID 1 */
#define CLEAN_MS 50
/* A just ended keeper may still lock a part of a cell: that part is found later. */
#define ROUNDS 20
#define ROUND_MS 100

/* One cell with the shell commands that remove it. A person may paste them into a shell.
 * orphans_find() has left out every path with other than plain characters. */
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

/* Cells first, then the cgroups of gone servers. */
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

static void add_cell(struct json *j, const struct orphan *c)
{
	json_open(j, NULL, '{');
	json_text(j, "id", c->id);
	json_uint(j, "pid", (uint64_t)c->pid1);
	json_uint(j, "processes", c->processes);
	json_bool(j, "frozen", c->frozen);
	json_open(j, "folders", '[');
	for (unsigned i = 0; i < c->ndirs; i++)
		json_text(j, NULL, c->dirs[i]);
	json_close(j, ']');
	json_close(j, '}');
}

/* Add the remains of gone servers to doctor_json(). */
static void add_cells(struct json *j, const struct orphans *o, size_t alive, bool all)
{
	json_open(j, "left", '{');
	json_uint(j, "cells", o->n);
	json_uint(j, "with_processes", alive);
	json_uint(j, "folders", o->ngroups);
	json_bool(j, "more", o->more);
	if (all) {
		json_open(j, "list", '[');
		for (size_t i = 0; i < o->n; i++)
			add_cell(j, &o->list[i]);
		json_close(j, ']');
	}
	json_close(j, '}');
}

/* The summary for people. Without --cells it ends with the two commands that go further, and
 * with the reason for caution. */
static void print_cells(const struct orphans *o, size_t alive, bool all)
{
	if (o->n > 0 || o->ngroups > 0)
		(void)fprintf(
			doctor_out(),
			"\n%zu%s cells of no running server (%zu with processes), %zu folders "
			"of servers that are gone\n%s",
			o->n, o->more ? " or more" : "", alive, o->ngroups,
			all ? ""
			    : "-> cordon doctor --cells lists them, cordon doctor --clean "
			      "removes them; the sessions of a\n   server that is stopped and "
			      "will start again are among them\n");
	if (all)
		print_each(o);
}

void doctor_cells(bool all)
{
	size_t alive = 0;
	struct orphans o;
	struct err e;

	if (orphans_find(&o, &e) < 0) {
		if (doctor_json() != NULL)
			json_text(doctor_json(), "left_unknown", e.msg);
		else
			(void)fprintf(doctor_out(),
				      "\ncells of no running server cannot be listed: %s\n", e.msg);
		return;
	}
	for (size_t i = 0; i < o.n; i++)
		alive += o.list[i].pid1 != 0;
	if (doctor_json() != NULL)
		add_cells(doctor_json(), &o, alive, all);
	else
		print_cells(&o, alive, all);
	orphans_release(&o);
}

/* ---- removal */

/* The process may have ended, and its number be another's: it is held by a pidfd first, then
 * looked at, and the signal goes to the pidfd. A process with another name is left alone, and
 * that is no error. */
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

/* A cgroup can be removed when its last process has been reaped, which takes a moment after
 * SIGKILL. Success if another process removed it in between. */
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

/* PID 1 first: its end kills every other process of the cell. A folder that is not empty stays,
 * and the error names it. */
static int clean_cell(const struct orphan *c, struct err *e)
{
	if (c->pid1 != 0 && kill_pid1(c->pid1, e) < 0)
		return -1;
	for (unsigned i = 0; i < c->ndirs; i++)
		if (remove_dir(c->dirs[i], e) < 0)
			return -1;
	return 0;
}

/* Print the result of one removal. Return whether it succeeded. */
static bool doctor_levels_report(const char *what, const char *name, int done, const struct err *e)
{
	(void)printf("%-9s %-23s %s\n", what, name, done == 0 ? "removed" : e->msg);
	return done == 0;
}

/* Without names every cell is meant. */
static bool is_named(const struct orphan *c, int n, char **names)
{
	for (int i = 0; i < n; i++)
		if (strcmp(c->id, names[i]) == 0)
			return true;
	return n == 0;
}

/* One round. Return how many were found, or -1. *ret_all: all of these were removed. */
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
		*ret_all = doctor_levels_report("cell", c->id[0] == '\0' ? "?" : c->id,
						clean_cell(c, e), e) &&
			   *ret_all;
	}
	for (size_t i = 0; i < o.ngroups && n == 0; i++, found++)
		*ret_all = doctor_levels_report("server", o.groups[i], remove_dir(o.groups[i], e),
						e) &&
			   *ret_all;
	orphans_release(&o);
	return found;
}

/* Rounds repeat until one finds nothing, because a keeper that has just ended may still lock a
 * part. A failed removal ends them: the next round would fail again. */
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

/* ---- the trials of the levels. Each guest prints a text of its own, so that an output of
 * another trial cannot pass. */
#define SAID "a program ran in gVisor" /* by the program of the trial */
#define VERSION_LINE "cordon-init " CORDON_VERSION "\n"
#define USERS "root:x:0:0::/:/\nuser:x:1000:1000::/:/\n"

/* "in 2.1 s (detail)", or why not. */
static void level_row(const char *name, const struct trial_result *r, const char *detail)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "a program ran in %u.%02u s (%.200s)", r->ms / 1000,
		       r->ms % 1000 / 10, detail);
	doctor_row("level", name, r->ok, r->ok ? text : r->why, "", r->ok ? "" : r->console);
}

/* The row of a level whose needs were found, but where no program ran. It counts as good:
 * --quick asks for the needs only. */
static void found_row(const char *name, const char *detail)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "not tried (--quick): %.200s", detail);
	doctor_row("level", name, true, text, "", "");
}

/* The time for the guest's start, the program in it, and the steps around them. */
static unsigned bound_of(const struct doctor_options *o)
{
	return 2 * (unsigned)o->trial_ms + TRIAL_GRACE_MS;
}

/* ---- gvisor */

/* gVisor runs on the machine's own files, so the trial needs no root image. Its options end with
 * --runsc only if the caller named one. */
static void try_gvisor(const struct doctor_options *o, const char *note)
{
	char wait[32];
	struct trial t = { .words = { "--level", "gvisor", "--boot-timeout", wait, "--timeout",
				      wait, o->runsc == NULL ? "--" : "--runsc" },
			   .expected = SAID "\n",
			   .bound_ms = bound_of(o) };
	size_t n = 7;
	struct trial_result r;

	(void)snprintf(wait, sizeof(wait), "%llums", (unsigned long long)o->trial_ms);
	if (o->runsc != NULL) {
		t.words[n++] = o->runsc;
		t.words[n++] = "--";
	}
	t.words[n++] = "echo";
	t.words[n] = SAID;
	trial_run(&t, &r);
	level_row("gvisor", &r, note);
}

/* The programs of the level first. Only a possible level is tried, and only without --quick. */
static void check_gvisor(const struct doctor_options *o)
{
	struct level_machine machine;
	const struct cell_level_state *s = &machine.states[CELL_GVISOR];

	level_machine_init(&machine);
	level_machine_find_one(CELL_GVISOR, o->runsc, "", &machine);
	level_machine_release(&machine);
	if (!s->is_possible)
		doctor_row("level", "gvisor", false, s->why, "cordon level install gvisor", "");
	else if (o->quick)
		found_row("gvisor", s->note);
	else
		try_gvisor(o, s->note);
}

/* ---- microvm */

/* Copy with the mode of a program. The target must not exist: the directory is new and belongs
 * to this process. */
static int copy_program(int root, const char *path, struct err *e)
{
	OWN_FD from = open(path, O_RDONLY | O_CLOEXEC);
	OWN_FD to = openat(root, "cordon-init", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return err_sys(e, "copy %.120s", path);
	while (st.st_size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)st.st_size);

		if (n <= 0)
			return err_sys(e, "copy %.120s", path);
		st.st_size -= n;
	}
	return 0;
}

/* The root of the trial's guest, in a new directory. */
static int make_root(const char *dir, struct err *e)
{
	char program[4096];
	OWN_FD root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (root < 0 || mkdirat(root, "etc", 0755) < 0)
		return err_sys(e, "make %.120s", dir);
	OWN_FD users = openat(root, "etc/passwd", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (users < 0)
		return err_sys(e, "make %.120s/etc/passwd", dir);
	if (io_write_all(users, USERS, strlen(USERS), e) < 0 ||
	    installed_path("cordon-init", program, sizeof(program), e) < 0)
		return -1;
	return copy_program(root, program, e);
}

/* The command is the one program of the root. Its version line proves that this build's
 * cordon-init ran in the guest. */
static void run_guest(const struct doctor_options *o, const char *state_dir, const char *root,
		      const char *note)
{
	char wait[32];
	/* --best-effort: an ordinary user may have no limits here. */
	const struct trial t = { .words = { "--level", "microvm", "--boot-timeout", wait,
					    "--timeout", wait, "--memory", "256M", "--best-effort",
					    "--state-dir", state_dir, "--template", root, "--",
					    "/cordon-init", "version" },
				 .expected = VERSION_LINE,
				 .bound_ms = bound_of(o) };
	struct trial_result r;

	(void)snprintf(wait, sizeof(wait), "%llums", (unsigned long long)o->trial_ms);
	trial_run(&t, &r);
	level_row("microvm", &r, note);
}

/* The directory is removed in every case. mkdtemp() lets only the caller in, but it becomes "/"
 * in the guest, where other users enter it. */
static void try_microvm(const struct doctor_options *o, const char *state_dir, const char *note)
{
	char root[] = "/tmp/cordon-doctor-XXXXXX";
	struct err e;

	if (mkdtemp(root) == NULL) {
		(void)err_sys(&e, "make %.120s", root);
		doctor_row("level", "microvm", false, e.msg, "", "");
		return;
	}
	if (chmod(root, 0755) < 0 || make_root(root, &e) < 0)
		doctor_row("level", "microvm", false, e.msg, "", "");
	else
		run_guest(o, state_dir, root, note);
	rmtree(AT_FDCWD, root);
}

/* The setting's default depends on the user: root has a system-wide directory, others have one
 * in their home. */
const char *doctor_state_dir(void)
{
	static struct config config;
	struct config_starter starter;

	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	return config.state_dir;
}

/* The template that sessions have by default, before one needs its image. Its size is estimated
 * from the files of this machine, because making the image takes minutes. */
static void check_host_template(const char *state_dir)
{
	uint64_t bytes = 0, room = host_size_room(state_dir);
	char text[200];
	struct err e;

	if (host_size(0, &bytes, &e) < 0) {
		doctor_row("level", "microvm template", false, e.msg, "", "");
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "host has %llu MiB at this level, and %llu MiB are free for %.100s",
		       (unsigned long long)(bytes >> 20), (unsigned long long)(room >> 20),
		       state_dir);
	doctor_row(
		"level", "microvm template", bytes <= room, text,
		"room there, storage_dir on a larger disk, or a smaller template for sessions at "
		"this level",
		"");
}

/* The rows of level microvm: the level, the room for its template, and the speed. The last one
 * is no condition: without KVM guests run, but slowly. */
static void check_microvm(const struct doctor_options *o)
{
	const char *state_dir = o->state_dir == NULL ? doctor_state_dir() : o->state_dir;
	struct guest_machine m;
	char note[160], speed[200];
	struct err e;

	if (guest_machine_find(state_dir, &m, &e) < 0) {
		doctor_row("level", "microvm", false, e.msg, "cordon level install microvm", "");
		return;
	}
	(void)snprintf(note, sizeof(note), "QEMU %u.%u with %s, guest kernel %.80s", m.qemu[0],
		       m.qemu[1], m.use_kvm ? "kvm" : "tcg", m.kernel.release);
	if (o->quick)
		found_row("microvm", note);
	else
		try_microvm(o, state_dir, note);
	check_host_template(state_dir);
	guest_machine_accel_text(&m, speed, sizeof(speed));
	doctor_row("level", "microvm speed", m.use_kvm, speed,
		   "a processor with virtualization that this machine may use, and its user may "
		   "open /dev/kvm",
		   "");
}

/* The container level has no trial of its own: check_restrictions() has tried the standard
 * profile before, and its result and time are shown again here. */
void doctor_levels(const struct doctor_options *o, const struct trial_result *container)
{
	level_row("container", container, cell_level_of(CELL_CONTAINER)->separated);
	check_gvisor(o);
	check_microvm(o);
}
