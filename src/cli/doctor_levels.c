/* doctor_levels.c - the part of cordon doctor about the levels: what each needs is looked for, and
 * then a program is run at it, in the way of `cordon run --level`. Without --quick, "yes" is only
 * printed for a level at which a program has run here. What the template host takes at microvm is
 * said beside it.
 *
 * The guest of level microvm boots from a root that is made for the trial: an image of the
 * machine's /usr takes minutes where there is none yet. It has one program, which needs no other
 * file: cordon-init, asked for its version. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child_process.h"
#include "config.h"
#include "doctor.h"
#include "guest_machine.h"
#include "host_size.h"
#include "io.h"
#include "level_machine.h"
#include "rmtree.h"

#define SAID "a program ran in gVisor" /* by the program of the trial */
#define VERSION_LINE "cordon-init " CORDON_VERSION "\n"
#define USERS "root:x:0:0::/:/\nuser:x:1000:1000::/:/\n"

/* "in 2.1 s (detail)", or why not. */
static void level_row(const char *name, const struct trial_result *r, const char *detail)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "a program ran in %u.%02u s (%.200s)", r->ms / 1000,
		       r->ms % 1000 / 10, detail);
	doctor_row("level", name, r->ok, r->ok ? text : r->why, "");
	if (r->ok || r->console[0] == '\0')
		return;
	(void)fprintf(doctor_out(), "%-34s its engine or guest printed last:\n", "");
	for (const char *at = r->console; *at != '\0'; at += *at == '\n') {
		size_t n = strcspn(at, "\n");

		(void)fprintf(doctor_out(), "%-34s | %.*s\n", "", (int)n, at);
		at += n;
	}
}

static void found_row(const char *name, const char *detail)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "not tried (--quick): %.200s", detail);
	doctor_row("level", name, true, text, "");
}

/* The start of the guest, the program in it, and what is around them. */
static unsigned bound_of(const struct doctor_options *o)
{
	return 2 * (unsigned)o->trial_ms + TRIAL_GRACE_MS;
}

/* ---- gvisor */

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

static void check_gvisor(const struct doctor_options *o)
{
	struct level_machine machine;
	const struct cell_level_state *s = &machine.states[CELL_GVISOR];

	level_machine_init(&machine);
	level_machine_find_one(CELL_GVISOR, o->runsc, "", &machine);
	level_machine_release(&machine);
	if (!s->is_possible)
		doctor_row("level", "gvisor", false, s->why, "cordon level install gvisor");
	else if (o->quick)
		found_row("gvisor", s->note);
	else
		try_gvisor(o, s->note);
}

/* ---- microvm */

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
	    child_process_beside("cordon-init", program, sizeof(program), e) < 0)
		return -1;
	return copy_program(root, program, e);
}

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

static void try_microvm(const struct doctor_options *o, const char *state_dir, const char *note)
{
	char root[] = "/tmp/cordon-doctor-XXXXXX";
	struct err e;

	if (mkdtemp(root) == NULL) {
		(void)err_sys(&e, "make %.120s", root);
		doctor_row("level", "microvm", false, e.msg, "");
		return;
	}
	if (chmod(root, 0755) < 0 || make_root(root, &e) < 0)
		doctor_row("level", "microvm", false, e.msg, "");
	else
		run_guest(o, state_dir, root, note);
	rmtree(AT_FDCWD, root);
}

static const char *usual_state_dir(void)
{
	static struct config config;
	struct config_starter starter;

	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	return config.state_dir;
}

/* The template that sessions have by default, before one needs its image. */
static void check_host_template(const char *state_dir)
{
	uint64_t bytes = 0, room = host_size_room(state_dir);
	char text[200];
	struct err e;

	if (host_size(0, &bytes, &e) < 0) {
		doctor_row("level", "microvm template", false, e.msg, "");
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "host has %llu MiB at this level, and %llu MiB are free for %.100s",
		       (unsigned long long)(bytes >> 20), (unsigned long long)(room >> 20),
		       state_dir);
	doctor_row(
		"level", "microvm template", bytes <= room, text,
		"room there, storage_dir on a larger disk, or a smaller template for sessions at "
		"this level");
}

static void check_microvm(const struct doctor_options *o)
{
	const char *state_dir = o->state_dir == NULL ? usual_state_dir() : o->state_dir;
	struct guest_machine m;
	char note[160], speed[200];
	struct err e;

	if (guest_machine_find(state_dir, &m, &e) < 0) {
		doctor_row("level", "microvm", false, e.msg, "cordon level install microvm");
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
		   "open /dev/kvm");
}

void doctor_levels(const struct doctor_options *o, const struct trial_result *container)
{
	level_row("container", container, cell_level_of(CELL_CONTAINER)->separated);
	check_gvisor(o);
	check_microvm(o);
}
