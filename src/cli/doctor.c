/* doctor.c - theory of operation
 *
 * Nothing is guessed from version numbers: a keeper is started and reports what it can do, a cell
 * is made in each profile and reports what was in force, and the few features that no cell uses yet
 * are tried by themselves. A row that the standard profile cannot do without is marked as needed,
 * and decides the exit code. */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "io.h"
#include "keeper_client.h"
#include "nofile.h"

#define SAID "a program ran in a cell" /* by the program of a trial */

static unsigned missing_needed, missing;
static FILE *collected;

FILE *doctor_out(void)
{
	return collected == NULL ? stdout : collected;
}

static void row(const char *group, const char *name, bool ok, bool needed, const char *detail,
		const char *help)
{
	(void)fprintf(doctor_out(), "%-9s %-18s %-4s %s\n", group, name, ok ? "yes" : "no", detail);
	if (!ok && *help != '\0')
		(void)fprintf(doctor_out(), "%-9s %-18s      -> %s\n", "", "", help);
	missing += !ok;
	missing_needed += !ok && needed;
}

void doctor_row(const char *group, const char *name, bool ok, const char *detail, const char *help)
{
	row(group, name, ok, false, detail, help);
}

/* Runs a program in a cell of this profile. */
static void try_cell(const char *profile, struct trial_result *ret)
{
	const struct trial t = {
		.words = { "--profile", profile, "--timeout", "30s", "--", "echo", SAID },
		.expected = SAID "\n",
		.bound_ms = 30000 + TRIAL_GRACE_MS,
	};

	trial_run(&t, ret);
}

static void check_restrictions(const struct cell_restrictions *w, struct trial_result *standard)
{
	struct trial_result locked;
	const char *why = standard->why;
	char text[256];

	try_cell(cell_profile_name(CELL_STANDARD), standard);
	row("isolation", "standard profile", standard->ok, true,
	    standard->ok ? "a cell was made and ran a command" : why,
	    strstr(why, "private mounts: Invalid") != NULL ||
			    strstr(why, "namespaces: Operation not permitted") != NULL
		    ? "this may be a chroot, in which Linux makes no user namespaces: use "
		      "pivot_root (systemd-nspawn does), or the machine itself"
		    : "the message names the step; see doc/limits.md");
	if (standard->ok)
		row("isolation", "egress", standard->can_redirect, false,
		    standard->can_redirect
			    ? "connections of a cell can be redirected to cordon-egress"
			    : "this kernel has no nftables with tproxy: cells have no network but "
			      "loopback",
		    "a kernel with nf_tables and nft_tproxy (CONFIG_NFT_TPROXY)");
	else
		row("isolation", "egress", false, false, "not tried: it needs a cell", "");
	try_cell(cell_profile_name(CELL_LOCKED), &locked);
	row("isolation", "locked profile", locked.ok, false,
	    locked.ok ? "a cell was made and ran a command" : locked.why, "");
	(void)snprintf(text, sizeof(text), "%u ids for each cell%s", w->ids,
		       w->rootless ? ", from /etc/subuid where given" : ", of its own");
	row("isolation", "user ids", w->ids > 1, false, text,
	    "install uidmap and give the user 65,536 ids in /etc/subuid and /etc/subgid");
	(void)snprintf(text, sizeof(text),
		       w->landlock_abi > 0 ? "version %u" : "not in this kernel (version 2 needed)",
		       w->landlock_abi);
	row("isolation", "Landlock", w->landlock_abi > 0, false, text,
	    "a kernel of 5.19 or later with landlock in its lsm= list; cells work without this "
	    "second restriction");
}

/* cordon serve raises its own to the hard one. */
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
	row("limit", "descriptors", ok, false, text,
	    "raise the hard limit (LimitNOFILE= of the service, ulimit -Hn), or set "
	    "node_max_sessions lower");
}

static void check_limits(const struct cell_restrictions *w)
{
	static const struct {
		const char *name;
		unsigned bit;
	} limits[] = { { "memory", CELL_LIMIT_MEMORY },
		       { "cpus", CELL_LIMIT_CPU },
		       { "pids", CELL_LIMIT_PIDS } };
	char text[160];

	for (size_t i = 0; i < COUNT(limits); i++) {
		bool ok = (w->limits & limits[i].bit) != 0;

		(void)snprintf(text, sizeof(text), ok ? "cgroup v%u" : "%.0u%s",
			       ok ? w->cgroup_version : 0, w->no_limits_why);
		row("limit", limits[i].name, ok, !w->rootless, ok ? text : w->no_limits_why,
		    w->rootless
			    ? "run inside `systemd-run --user --scope -p Delegate=yes`, or as root"
			    : "mount cgroup v2 (or v1 with cpu, memory, pids) writable");
	}
	row("limit", "disk, inodes", true, true, "sized tmpfs", "");
	row("limit", "disk rate", (w->limits & CELL_LIMIT_DISK) != 0, false,
	    (w->limits & CELL_LIMIT_DISK) != 0 ? "cgroup v2, io"
					       : "no cgroup v2 with the io controller",
	    "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)");
	row("limit", "nofile, output, time", true, true, "", "");
	check_descriptors();
}

/* What disks of sessions need: each is tried or looked at, none is changed. */
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

	row("storage", "disks", why == NULL, false,
	    why == NULL ? "ext4 images on loop devices (storage: disk, persist)" : why,
	    w->rootless ? "run the server as root"
	    : loop < 0	? "modprobe loop"
	    : ext4 < 0	? "modprobe ext4"
			: "install e2fsprogs");
}

/* cordon-cache has a user of its own, if there is one. */
static void check_cache(const struct cell_restrictions *w)
{
	bool ok = w->rootless || getpwnam("cordon-cache") != NULL;

	row("storage", "package cache", ok, false,
	    w->rootless ? "cordon-cache runs as the user that starts the server"
	    : ok	? "cordon-cache has a user of its own"
			: "no user cordon-cache: it runs as the user of cordon-egress",
	    "useradd --system --shell /usr/sbin/nologin cordon-cache, or set cache_user");
}

static void check_storage(const struct cell_restrictions *w)
{
	struct statfs fs;
	char text[96];

	row("storage", "idmapped layers", !w->rootless, false,
	    w->rootless ? "only a privileged keeper can"
			: "root in a cell owns /usr in its own view",
	    "run as root");
	if (statfs("/usr", &fs) == 0) {
		(void)snprintf(text, sizeof(text), "file system type 0x%lx",
			       (unsigned long)fs.f_type);
		row("storage", "/usr", true, true, text, "");
	}
	check_disks(w);
	check_cache(w);
}

static void check_programs(void)
{
	static const char *const programs[] = { "bash", "python3", "git", "curl", "node", "sudo" };
	char path[64];

	for (size_t i = 0; i < COUNT(programs); i++) {
		(void)snprintf(path, sizeof(path), "/usr/bin/%s", programs[i]);
		row("template", programs[i], access(path, X_OK) == 0, false,
		    access(path, X_OK) == 0 ? path : "not on this machine, so not in its cells",
		    "install it with apt-get");
	}
}

static void check_all(const struct doctor_options *o)
{
	struct trial_result standard = { .why = "no keeper could be started" };
	struct cell_restrictions found;
	struct keeper_client keeper;
	struct err e;
	bool ok;

	ok = keeper_client_start(&keeper, false, &e) == 0 && keeper_client_hello(&keeper, &e) == 0;
	row("isolation", "keeper", ok, true, ok ? "started" : e.msg,
	    "an ordinary user needs user namespaces: sysctl kernel.unprivileged_userns_clone=1, or "
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
	doctor_cells(o->cells);
}

/* All rows, with the verdict above them. Without memory for that the rows come first. */
static void print_rows(const struct doctor_options *o)
{
	char *text = NULL;
	size_t len = 0;

	if (isatty(STDERR_FILENO) && !o->quick)
		(void)fprintf(stderr, "trying each level; --quick leaves the guests out\n");
	collected = open_memstream(&text, &len);
	check_all(o);
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

static int doctor_main(int argc, char **argv)
{
	struct doctor_options o = { .trial_ms = 60000 };
	struct utsname machine;
	struct err e = { 0 };
	int n = options_parse(&doctor_verb, argc, argv, &o, NULL, &e);

	if (n >= 0 && n < argc && !o.clean)
		n = err_set(&e, ERR_INVALID, "takes no arguments but options");
	if (n < 0) {
		(void)fprintf(stderr, "cordon doctor: %s\n", e.msg);
		return 125;
	}
	if (o.help) {
		options_help(&doctor_verb, stdout);
		return 0;
	}
	if (o.clean)
		return doctor_clean(argc - n, argv + n);
	(void)uname(&machine);
	(void)printf("cordon %s on Linux %s %s, %s\n\n", CORDON_VERSION, machine.release,
		     machine.machine, geteuid() == 0 ? "as root" : "as an ordinary user");
	print_rows(&o);
	return missing_needed == 0 ? 0 : 1;
}

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
		"gvisor and microvm; 1 if not; with --clean 0 if no such cell is left; 125 for "
		"wrong options.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = doctor_main,
};
