/* doctor.c - theory of operation
 *
 * Nothing is guessed from version numbers: a keeper is started and reports its abilities, a cell is
 * made in each profile and reports the protections in force, and the few features that no cell uses
 * so far are tried by themselves. A row needed by the standard profile is marked so, and decides
 * the exit code.
 *
 * This file has the trials, the rows and the verb. doctor_levels.c has the rows of levels and the
 * removal of left cells. doctor_record.c keeps findings for `cordon report`. Only --clean, --record
 * and --tests change files or cells of the machine. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/cellctl/cgroups.h"
#include "cell/cellctl/keeper_client.h"
#include "cmd/base/colour.h"
#include "cmd/base/nofile.h"
#include "cmd/run/run.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/own.h"
#include "lib/wire/exit_codes.h"

#define CLEAN_MS 10000 /* for the keeper of a killed trial */

/* Where the output of a trial is collected. Bytes beyond the buffer are read and dropped, so
 * that a talkative program never blocks on a full pipe. */
struct output {
	int fd; /* owned. -1 at its end */
	char text[4096];
	size_t len;
};

/* In the child. It becomes `cordon run` by a call and not by execve(): the trial tests this very
 * program. The child ends with its parent, so a killed doctor leaves no trial behind. */
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

/* One read. At the end of input, and after an error, the descriptor is closed and -1. */
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

/* Until both ends are closed: by the command, by cordon run, and by its keeper. All three hold
 * them, so the end also means that the cell is gone. False: that did not happen in time. */
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

/* Split stderr in two: the last line becomes the reason, without the program's name. The lines
 * before come from the engine or the guest's console. */
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

/* Write the reason of a failure. A program that ended well but printed another text has failed,
 * too: only its output proves that it ran in the cell. */
static void doctor_judge(const struct trial *t, int status, bool in_time, struct output *out,
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

/* The time bound holds for the whole trial. After SIGKILL the output is read again until its
 * end: the killed child's keeper closes it when it has removed the cell. */
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
	doctor_judge(t, status, in_time, &o, &e, ret);
	fd_close(o.fd);
	fd_close(e.fd);
}

/* Every descriptor made here is closed before the return. The result file is a memory file, so a
 * trial leaves nothing on disk. *ret is a failure with a reason wherever a step before the child
 * fails. */
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

/* ---- rows. Each check calls doctor_print_row() once for each feature. A row has a group and a
 * name, which scripts look for, whether the feature works, whether the standard profile needs it, a
 * detail for people, and the help for a missing one. */
#define SAID "a program ran in a cell" /* by the program of a trial */

/* The rows so far. The verdict counts them, so every row goes through any_row(). One of `object`
 * and `collected` takes their text: the object with --json, else the collected text. The program
 * runs one command, so these are static. */
static unsigned missing_needed, missing;
static FILE *collected;
static struct json *object;

FILE *doctor_out(void)
{
	return collected == NULL ? stdout : collected;
}

struct json *doctor_json(void)
{
	return object;
}

/* Below a row, each line with a bar before it. trial_result says which bytes are escaped. */
static void print_console(const char *text)
{
	(void)fprintf(doctor_out(), "%-34s its engine or guest printed last:\n", "");
	for (const char *at = text; *at != '\0'; at += *at == '\n') {
		size_t n = strcspn(at, "\n");

		(void)fprintf(doctor_out(), "%-34s | %.*s\n", "", (int)n, at);
		at += n;
	}
}

/* The members of a row in --json. `cordon report` reads the recorded form (doc/audit.md). */
static void add_row(const char *group, const char *name, bool ok, bool needed, const char *detail,
		    const char *help, const char *console)
{
	json_open(object, NULL, '{');
	json_text(object, "group", group);
	json_text(object, "name", name);
	json_bool(object, "ok", ok);
	json_bool(object, "needed", needed);
	json_text(object, "detail", detail);
	json_text(object, "help", ok || *help == '\0' ? NULL : help);
	if (*console != '\0')
		json_text(object, "console", console);
	json_close(object, '}');
}

/* Every row passes here. A row that is missing and needed makes the exit code 1, any other
 * missing row changes only the first line of the output. */
static void any_row(const char *group, const char *name, bool ok, bool needed, const char *detail,
		    const char *help, const char *console)
{
	missing += !ok;
	missing_needed += !ok && needed;
	if (object != NULL) {
		add_row(group, name, ok, needed, detail, help, console);
		return;
	}
	(void)fprintf(doctor_out(), "%-9s %-18s %s%-4s%s %s\n", group, name,
		      colour(stdout, ok	      ? COLOUR_GOOD
				     : needed ? COLOUR_BAD
					      : COLOUR_WARN),
		      ok ? "yes" : "no", colour(stdout, COLOUR_NONE), detail);
	if (!ok && *help != '\0')
		(void)fprintf(doctor_out(), "%-9s %-18s      -> %s\n", "", "", help);
	if (*console != '\0')
		print_console(console);
}

static void doctor_print_row(const char *group, const char *name, bool ok, bool needed,
			     const char *detail, const char *help)
{
	any_row(group, name, ok, needed, detail, help, "");
}

void doctor_row(const char *group, const char *name, bool ok, const char *detail, const char *help,
		const char *console)
{
	any_row(group, name, ok, false, detail, help, console);
}

/* Run a program in a cell of this profile. The bound is the program's own timeout and the time
 * for all else around it. */
static void try_cell(const char *profile, struct trial_result *ret)
{
	const struct trial t = {
		.words = { "--profile", profile, "--timeout", "30s", "--", "echo", SAID },
		.expected = SAID "\n",
		.bound_ms = 30000 + TRIAL_GRACE_MS,
	};

	trial_run(&t, ret);
}

/* The rows about protections. The standard profile's trial also tells whether a cell's
 * connections can be redirected. Its result is kept: the row of level container reports the same
 * trial. */
static void check_restrictions(const struct cell_restrictions *w, struct trial_result *standard)
{
	struct trial_result locked;
	const char *why = standard->why;
	char text[256];

	try_cell(cell_profile_name(CELL_STANDARD), standard);
	doctor_print_row(
		"isolation", "standard profile", standard->ok, true,
		standard->ok ? "a cell was made and ran a command" : why,
		strstr(why, "private mounts: Invalid") != NULL ||
				strstr(why, "namespaces: Operation not permitted") != NULL
			? "this may be a chroot, in which Linux makes no user namespaces: use "
			  "pivot_root (systemd-nspawn does), or the machine itself"
			: "the message names the step; see doc/limits.md");
	if (standard->ok)
		doctor_print_row(
			"isolation", "egress", standard->can_redirect, false,
			standard->can_redirect
				? "connections of a cell can be redirected to cordon-egress"
				: "this kernel has no nftables with tproxy: cells have no network "
				  "but "
				  "loopback",
			"a kernel with nf_tables and nft_tproxy (CONFIG_NFT_TPROXY)");
	else
		doctor_print_row("isolation", "egress", false, false, "not tried: it needs a cell",
				 "");
	try_cell(cell_profile_name(CELL_LOCKED), &locked);
	doctor_print_row("isolation", "locked profile", locked.ok, false,
			 locked.ok ? "a cell was made and ran a command" : locked.why, "");
	(void)snprintf(text, sizeof(text), "%u ids for each cell%s", w->ids,
		       w->rootless ? ", from /etc/subuid where given" : ", of its own");
	doctor_print_row(
		"isolation", "user ids", w->ids > 1, false, text,
		"install uidmap and give the user 65,536 ids in /etc/subuid and /etc/subgid");
	(void)snprintf(text, sizeof(text),
		       w->landlock_abi > 0 ? "version %u" : "not in this kernel (version 2 needed)",
		       w->landlock_abi);
	doctor_print_row(
		"isolation", "Landlock", w->landlock_abi > 0, false, text,
		"a kernel of 5.19 or later with landlock in its lsm= list; cells work without this "
		"second restriction");
}

/* cordon serve raises its own to the hard one. So the hard limit counts here, compared with the
 * need of a server with NOFILE_SESSIONS sessions. */
static void check_descriptors(void)
{
	struct rlimit limit = { 0 };
	char text[160];
	bool ok;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		limit.rlim_max = 0;
	ok = limit.rlim_max >= nofile_wanted(NOFILE_SESSIONS);
	(void)snprintf(text, sizeof(text),
		       "%llu for each program of a server; %u sessions want %llu",
		       (unsigned long long)limit.rlim_max, NOFILE_SESSIONS,
		       (unsigned long long)nofile_wanted(NOFILE_SESSIONS));
	doctor_print_row("limit", "descriptors", ok, false, text,
			 "raise the hard limit (LimitNOFILE= of the service, ulimit -Hn), or set "
			 "node_max_sessions lower");
}

/* The resource limits that the keeper can enforce here. Only root needs them: an ordinary user
 * may have no cgroup, and `cordon run` then leaves out the default limits. The advice follows
 * from the place of this process in the cgroup tree. */
static void check_limits(const struct cell_restrictions *w)
{
	static const struct {
		const char *name;
		unsigned bit;
	} limits[] = { { "memory", CELL_LIMIT_MEMORY },
		       { "cpus", CELL_LIMIT_CPU },
		       { "pids", CELL_LIMIT_PIDS } };
	char text[160], advice[160];
	struct cgroups cgroups;

	cgroups_find(&cgroups);
	(void)snprintf(advice, sizeof(advice), "run it %s", cgroups_advice(&cgroups, !w->rootless));
	cgroups_release(&cgroups);
	for (size_t i = 0; i < COUNT(limits); i++) {
		bool ok = (w->limits & limits[i].bit) != 0;

		(void)snprintf(text, sizeof(text), ok ? "cgroup v%u" : "%.0u%s",
			       ok ? w->cgroup_version : 0, w->no_limits_why);
		doctor_print_row("limit", limits[i].name, ok, !w->rootless,
				 ok ? text : w->no_limits_why, advice);
	}
	doctor_print_row("limit", "disk, inodes", true, true, "sized tmpfs", "");
	doctor_print_row("limit", "disk rate", (w->limits & CELL_LIMIT_DISK) != 0, false,
			 (w->limits & CELL_LIMIT_DISK) != 0 ? "cgroup v2, io"
							    : "no cgroup v2 with the io controller",
			 "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)");
	doctor_print_row("limit", "nofile, output, time", true, true, "", "");
	check_descriptors();
}

/* Check the needs of session disks: each is tried or read, none is changed. The row names only
 * the first missing part. */
static void check_disks(const struct cell_restrictions *w)
{
	OWN_FD loop = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	OWN_FD ext4 = (int)syscall(SYS_fsopen, "ext4", 0);
	bool tools =
		access("/usr/sbin/mkfs.ext4", X_OK) == 0 && access("/usr/sbin/e2fsck", X_OK) == 0;
	const char *why = w->rootless ? "needs loop devices: only root may use them"
			  : loop < 0  ? "no /dev/loop-control"
			  : ext4 < 0  ? "the kernel has no ext4"
			  : !tools    ? "no mkfs.ext4 and e2fsck in /usr/sbin"
				      : NULL;

	doctor_print_row("storage", "disks", why == NULL, false,
			 why == NULL ? "ext4 images on loop devices (storage: disk, persist)" : why,
			 w->rootless ? "run the server as root"
			 : loop < 0  ? "modprobe loop"
			 : ext4 < 0  ? "modprobe ext4"
				     : "install e2fsprogs");
}

/* cordon-cache has a user of its own, if there is one. Without that user the cache works, but
 * shares its files with the processes of cordon-egress. */
static void check_cache(const struct cell_restrictions *w)
{
	bool ok = w->rootless || getpwnam("cordon-cache") != NULL;

	doctor_print_row(
		"storage", "package cache", ok, false,
		w->rootless ? "cordon-cache runs as the user that starts the server"
		: ok	    ? "cordon-cache has a user of its own"
			    : "no user cordon-cache: it runs as the user of cordon-egress",
		"useradd --system --shell /usr/sbin/nologin cordon-cache, or set cache_user");
}

/* cordon-notary has a user of its own, if there is one. It holds the signing keys of the audit
 * log, so no other program should run as the same user. */
static void check_notary(const struct cell_restrictions *w)
{
	bool ok = w->rootless || getpwnam("cordon-notary") != NULL;

	doctor_print_row(
		"storage", "audit log keys", ok, false,
		w->rootless ? "cordon-notary runs as the user that starts the server"
		: ok	    ? "cordon-notary has a user of its own"
			    : "no user cordon-notary: it runs as the user of cordon-cache",
		"useradd --system --shell /usr/sbin/nologin cordon-notary, or set notary_user");
}

/* The standard profile needs no storage feature, so these rows never decide the exit code. The
 * keeper reports some of them, the others are looked for here. */
static void check_storage(const struct cell_restrictions *w)
{
	struct statfs fs;
	char text[96];

	doctor_print_row("storage", "idmapped layers", !w->rootless, false,
			 w->rootless ? "only a privileged keeper can"
				     : "root in a cell owns /usr in its own view",
			 "run as root");
	if (statfs("/usr", &fs) == 0) {
		(void)snprintf(text, sizeof(text), "file system type 0x%lx",
			       (unsigned long)fs.f_type);
		doctor_print_row("storage", "/usr", true, true, text, "");
	}
	check_disks(w);
	check_cache(w);
	check_notary(w);
}

/* The template host shows the machine's /usr, so a missing program is missing in cells, too. */
static void check_programs(void)
{
	static const char *const programs[] = { "bash", "python3", "git", "curl", "node", "sudo" };
	char path[64];

	for (size_t i = 0; i < COUNT(programs); i++) {
		(void)snprintf(path, sizeof(path), "/usr/bin/%s", programs[i]);
		doctor_print_row(
			"template", programs[i], access(path, X_OK) == 0, false,
			access(path, X_OK) == 0 ? path : "not on this machine, so not in its cells",
			"install it with apt-get");
	}
}

/* The groups in their printed order. Without a keeper no restriction can be known, so the groups
 * that depend on one are left out. */
static void check_all(const struct doctor_options *o)
{
	struct trial_result standard = { .why = "no keeper could be started" };
	struct cell_restrictions found;
	struct keeper_client keeper;
	struct err e;
	bool ok;

	ok = keeper_client_start(&keeper, false, &e) == 0 && keeper_client_hello(&keeper, &e) == 0;
	doctor_print_row("isolation", "keeper", ok, true, ok ? "started" : e.msg,
			 "an ordinary user needs user namespaces: sysctl "
			 "kernel.unprivileged_userns_clone=1, or "
			 "run as root");
	if (ok) {
		found = keeper.restrictions;
		keeper_client_stop(&keeper, NULL);
		check_restrictions(&found, &standard);
		check_limits(&found);
		check_storage(&found);
	}
	doctor_levels(o, &standard);
	check_programs();
}

/* All rows, with the verdict above them: the rows are collected in memory until the verdict is
 * known. Without memory for that the rows come first. */
static void print_rows(const struct doctor_options *o)
{
	char *text = NULL;
	size_t len = 0;

	if (isatty(STDERR_FILENO) && !o->quick)
		(void)fprintf(stderr, "trying each level; --quick leaves the guests out\n");
	collected = open_memstream(&text, &len);
	check_all(o);
	doctor_cells(o->cells);
	if (collected != NULL)
		(void)fclose(collected);
	(void)printf("the standard profile is %s here",
		     missing_needed == 0 ? "possible" : "NOT possible");
	(void)printf(missing == 0 ? ", and everything else, too\n\n"
				  : "; %u rows below say \"no\", each with what would help\n\n",
		     missing);
	(void)fwrite(text == NULL ? "" : text, 1, len, stdout);
	free(text);
}

#define JSON_MAX (4U << 20)

/* All rows as one object. Nothing is printed if it does not fit: half an answer would read as a
 * whole one. With --record the object goes to a file instead of standard output. */
static int print_json(const struct doctor_options *o, const struct utsname *machine)
{
	struct json j;
	bool ok;

	json_init_heap(&j, JSON_MAX);
	object = &j;
	json_open(&j, NULL, '{');
	json_text(&j, "version", CORDON_VERSION);
	json_text(&j, "kernel", machine->release);
	json_text(&j, "machine", machine->machine);
	json_bool(&j, "root", geteuid() == 0);
	json_open(&j, "rows", '[');
	check_all(o);
	json_close(&j, ']');
	doctor_cells(o->cells);
	json_uint(&j, "missing", missing);
	json_bool(&j, "possible", missing_needed == 0);
	json_close(&j, '}');
	object = NULL;
	ok = json_ok(&j);
	if (!ok)
		(void)fprintf(stderr, "cordon doctor: the answer is too large\n");
	else if (!o->record)
		(void)puts(j.text);
	else
		ok = doctor_record(o->state_dir == NULL ? doctor_state_dir() : o->state_dir,
				   "doctor.json", j.text, j.len) == 0;
	json_release(&j);
	return !ok ? EXIT_CORDON : missing_needed == 0 ? 0 : 1;
}

/* Three ways to go: --clean excludes all trials. --tests alone records the results of tests, and
 * with --record the trials follow. All else is a run of the trials, printed as rows or as one
 * object. */
static int doctor_main(int argc, char **argv)
{
	struct doctor_options o = { .trial_ms = 60000 };
	struct utsname machine;
	struct err e = { 0 };
	int n = options_parse(&doctor_verb, argc, argv, &o, NULL, &e);

	if (n >= 0 && n < argc && !o.clean)
		n = err_set(&e, ERR_INVALID, "takes no arguments but options");
	if (n >= 0 && o.clean && (o.json || o.record || o.tests != NULL))
		n = err_set(&e, ERR_INVALID, "--json, --record and --tests: not with --clean");
	if (n < 0) {
		(void)fprintf(stderr, "cordon doctor: %s\n", e.msg);
		return EXIT_USAGE;
	}
	if (o.help) {
		options_help(&doctor_verb, stdout);
		return 0;
	}
	if (o.clean)
		return doctor_clean(argc - n, argv + n);
	if (o.tests != NULL) {
		n = doctor_record_tests(o.state_dir == NULL ? doctor_state_dir() : o.state_dir,
					o.tests);
		if (n != 0 || !o.record)
			return n;
	}
	(void)uname(&machine);
	if (o.json || o.record)
		return print_json(&o, &machine);
	(void)printf("cordon %s on Linux %s %s, %s\n\n", CORDON_VERSION, machine.release,
		     machine.machine, geteuid() == 0 ? "as root" : "as an ordinary user");
	print_rows(&o);
	return missing_needed == 0 ? 0 : 1;
}

/* ---- the verb. --quick leaves out the guests. Cells are always tried, because they take
 * milliseconds. */
#define FIELD(name) offsetof(struct doctor_options, name)

/* clang-format off */
static const struct option options[] = {
	{ "quick", NULL, OPTION_FLAG, FIELD(quick), 0, 0,
	  "starts no guest: looks only for what the levels gvisor and microvm need" },
	{ "state-dir", "DIR", OPTION_TEXT, FIELD(state_dir), 0, 0,
	  "where `cordon guest install` put the kernel of microvm (default: as for cordon serve)" },
	{ "runsc", "FILE", OPTION_TEXT, FIELD(runsc), 0, 0,
	  "program of gVisor (default: the machine's)" },
	{ "boot-timeout", "TIME", OPTION_TIME, FIELD(trial_ms), 1000, 3600000,
	  "how long each guest may take to start, and a program in it (default 60s)" },
	{ "cells", NULL, OPTION_FLAG, FIELD(cells), 0, 0,
	  "lists each cell that belongs to no running server, with the commands that remove it" },
	{ "clean", NULL, OPTION_FLAG, FIELD(clean), 0, 0,
	  "removes cells that belong to no running server, or only those that are named" },
	{ "record", NULL, OPTION_FLAG, FIELD(record), 0, 0,
	  "keeps the findings in the state directory, for cordon report" },
	{ "tests", "FILE", OPTION_TEXT, FIELD(tests), 0, 0,
	  "keeps the results of tests there, too (Meson's testlog.json)" },
	{ "json", NULL, OPTION_FLAG, FIELD(json), 0, 0,
	  "prints one JSON object: possible, and rows with group, name, ok, needed, detail, help" },
	{ "help", NULL, OPTION_FLAG, FIELD(help), 0, 0,
	  "shows this help" },
};
/* clang-format on */

const struct verb doctor_verb = {
	.name = "doctor",
	.usage = "[options] | --clean [CELL ...]",
	.summary = "Tries every restriction, limit, level and storage feature on this machine and "
		   "prints what is missing.",
	.text = "A program is run at each level: in a cell, in gVisor, in a virtual machine. What "
		"is missing, and\n"
		"what the guest printed if it did not start, is told.\n"
		"Counts cells that belong to no running server. --clean removes them (or only "
		"those that are\n"
		"named), and tries nothing else: the sessions of a server that is stopped are lost "
		"by that.\n"
		"\n"
		"exit code: 0 if cells of the standard profile can be made here, whatever is with "
		"the levels\n"
		"gvisor and microvm; 1 if not; with --clean 0 if no such cell is left; 2 for "
		"wrong options.\n",
	.examples = "cordon doctor --quick\n"
		    "cordon doctor --quick --record\n"
		    "cordon doctor --clean\n",
	.options = options,
	.noptions = COUNT(options),
	.run = doctor_main,
};
