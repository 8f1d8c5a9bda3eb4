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
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "io.h"
#include "keeper_client.h"
#include "nofile.h"
#include "run.h"
#include "guest_files.h"
#include "level_machine.h"

static unsigned missing_needed;

static void row(const char *group, const char *name, bool ok, bool needed, const char *detail,
		const char *help)
{
	(void)printf("%-9s %-18s %-4s %s\n", group, name, ok ? "yes" : "no", detail);
	if (!ok && *help != '\0')
		(void)printf("%-9s %-18s      -> %s\n", "", "", help);
	if (!ok && needed)
		missing_needed++;
}

void doctor_row(const char *group, const char *name, bool ok, const char *detail, const char *help)
{
	row(group, name, ok, false, detail, help);
}

/* Runs true in a cell of this profile; *ret_text gets what went wrong, *ret_redirect whether the
 * cell's connections can be redirected. */
static bool try_cell(const char *profile, char *ret_text, size_t cap, bool *ret_redirect)
{
	char p[16], path[32],
		*argv[] = { (char *)(uintptr_t) "--profile",
			    p,
			    (char *)(uintptr_t) "--result",
			    path,
			    (char *)(uintptr_t) "--",
			    (char *)(uintptr_t) "true",
			    NULL };
	OWN_FD result = memfd_create("result", MFD_CLOEXEC);
	char json[8192] = "";
	int ends[2], status = -1;
	ssize_t n;
	pid_t pid;

	(void)snprintf(p, sizeof(p), "%s", profile);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", (int)result);
	ret_text[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		(void)dup2(to, STDERR_FILENO);
		_exit(run_main(6, argv));
	}
	fd_close(TAKE_FD(to));
	n = read(from, ret_text, cap - 1);
	ret_text[n < 0 ? 0 : n] = '\0';
	ret_text[strcspn(ret_text, "\n")] = '\0';
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (pread(result, json, sizeof(json) - 1, 0) > 0)
		*ret_redirect = strstr(json, "\"egress_redirect\":true") != NULL;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void check_restrictions(const struct cell_restrictions *w)
{
	char text[256];
	bool redirect = false, ignored;
	bool ok = try_cell(cell_profile_name(CELL_STANDARD), text, sizeof(text), &redirect);

	row("isolation", "standard profile", ok, true,
	    ok ? "a cell was made and ran a command" : text,
	    strstr(text, "private mounts: Invalid") != NULL ||
			    strstr(text, "namespaces: Operation not permitted") != NULL
		    ? "this may be a chroot, in which Linux makes no user namespaces: use "
		      "pivot_root (systemd-nspawn does), or the machine itself"
		    : "the message names the step; see doc/limits.md");
	if (ok)
		row("isolation", "egress", redirect, false,
		    redirect ? "connections of a cell can be redirected to cordon-egress"
			     : "this kernel has no nftables with tproxy: cells have no network but "
			       "loopback",
		    "a kernel with nf_tables and nft_tproxy (CONFIG_NFT_TPROXY)");
	else
		row("isolation", "egress", false, false, "not tried: it needs a cell", "");
	ok = try_cell(cell_profile_name(CELL_LOCKED), text, sizeof(text), &ignored);
	row("isolation", "locked profile", ok, false,
	    ok ? "a cell was made and ran a command" : text, "");
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

static void check_levels(const char *state_dir)
{
	struct level_machine machine;
	const struct cell_level *l;

	level_machine_find(NULL, state_dir == NULL ? GUEST_STATE_DIR : state_dir, &machine);
	for (size_t i = 0; (l = cell_level_at(i)) != NULL && l->id != CELL_MICROVM; i++) {
		const struct cell_level_state *s = &machine.states[i];

		row("level", l->name, missing_needed == 0 && s->is_possible,
		    l->engine == CELL_ENGINE_NONE,
		    !s->is_possible	 ? s->why
		    : s->note[0] != '\0' ? s->note
					 : l->separated,
		    "");
	}
	level_machine_release(&machine);
	doctor_microvm(state_dir);
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

static int doctor_main(int argc, char **argv)
{
	struct keeper_client keeper;
	struct cell_restrictions found = { 0 };
	const char *state_dir = NULL;
	struct utsname machine;
	struct err e;
	bool ok;

	if (argc >= 1 && strcmp(argv[0], "--clean") == 0)
		return doctor_clean(argc - 1, argv + 1);
	if (argc == 2 && strcmp(argv[0], "--state-dir") == 0) {
		state_dir = argv[1];
		argc = 0;
	}
	if (argc > 0) {
		bool help = strcmp(argv[0], "--help") == 0;

		options_help(&doctor_verb, help ? stdout : stderr);
		return help ? 0 : 125;
	}
	(void)uname(&machine);
	(void)printf("cordon %s on Linux %s %s, %s\n\n", CORDON_VERSION, machine.release,
		     machine.machine, geteuid() == 0 ? "as root" : "as an ordinary user");
	ok = keeper_client_start(&keeper, false, &e) == 0 && keeper_client_hello(&keeper, &e) == 0;
	row("isolation", "keeper", ok, true, ok ? "started" : e.msg,
	    "an ordinary user needs user namespaces: sysctl kernel.unprivileged_userns_clone=1, or "
	    "run as root");
	if (ok) {
		found = keeper.restrictions;
		keeper_client_stop(&keeper, NULL);
		check_restrictions(&found);
		check_limits(&found);
		check_storage(&found);
	}
	check_levels(state_dir);
	check_programs();
	doctor_cells();
	(void)printf("\nthe standard profile is %s here\n",
		     missing_needed == 0 ? "possible" : "NOT possible");
	return missing_needed == 0 ? 0 : 1;
}

const struct verb doctor_verb = {
	.name = "doctor",
	.usage = "[--state-dir DIR] | --clean [CELL ...]",
	.summary = "Tries every restriction, limit, level and storage feature on this machine and "
		   "prints what is missing.",
	.text = "--state-dir: where the guest kernel of level microvm is looked for (default: as "
		"for cordon "
		"serve).\n"
		"Lists cells that belong to no running server. --clean removes them (or only "
		"those that are\n"
		"named), and tries nothing else: the sessions of a server that is stopped are lost "
		"by that.\n"
		"\n"
		"exit code: 0 if cells of the standard profile can be made here, 1 if not; with "
		"--clean 0 if\n"
		"no such cell is left.\n",
	.run = doctor_main,
};
