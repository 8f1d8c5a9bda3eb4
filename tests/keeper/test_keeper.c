/* Goal: a server's cells outlive their keeper, the next keeper can do with them all that the first
 * one could, and neither lets a server that was taken over have more than its operator gave.
 *
 * Needs root. Stands beside the keeper in the build directory, which it starts. */
#include "server.h"

#include <grp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include "lib/base/kernel.h"
#include "cell/cellctl/rootless.h"

static struct server s;
static struct cell a, b;

static void begin(bool unified)
{
	if (geteuid() != 0)
		SKIP("needs root");
	start_server(&s, unified);
}

static void an_heir_can_do_it_all(void)
{
	char *text;
	int from;

	begin(true);
	make_cell(&s, "a", &a);
	free(run_shell(&a, "echo new > /tmp/new; rm /etc/hostname; chown 1000 /etc/passwd",
		       "root"));
	kill_keeper(&s);
	CHECK(!ended(a.pidfd, 100));
	spawn_keeper(&s);
	free(run_shell(&a, "echo more > /tmp/more", "user"));
	MUST(ask_diff(&s, a.id, a.pid, &from, &e));
	text = read_list(from);
	CHECK_HAS("added", text, "A\t100644\t4\t/tmp/new\n");
	CHECK_HAS("added later", text, "A\t100644\t5\t/tmp/more\n");
	CHECK_HAS("deleted", text, "\t/etc/hostname\n");
	CHECK_HAS("another owner", text, "\t/etc/passwd\n");
	CHECK(strstr(text, "/etc/shadow") == NULL && strstr(text, "/usr") == NULL);
	CHECK(strlen(text) > 9 && strcmp(text + strlen(text) - 8, "E\t0\t0\t/\n") == 0);
	free(text);
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static void freezes(void)
{
	char byte;
	int out;

	begin(true);
	if (!s.k.restrictions.freezer)
		SKIP("no cgroup v2 hierarchy here");
	make_cell(&s, "a", &a);
	start_shell(&a, "while :; do echo; done", "user", &out);
	CHECK(fcntl(out, F_SETFL, O_NONBLOCK) == 0);
	for (int round = 0; round < 3; round++) {
		struct pollfd more = { .fd = out, .events = POLLIN };

		CHECK(poll(&more, 1, 10000) == 1);
		MUST(ask_named(&s, KEEPER_FREEZE, a.id, a.pid, 1, &e));
		MUST(ask_named(&s, KEEPER_FREEZE, a.id, 0, 1, &e));
		while (read(out, &byte, 1) == 1)
			;
		CHECK(poll(&more, 1, 100) == 0);
		if (round == 1) {
			kill_keeper(&s);
			spawn_keeper(&s);
			CHECK(poll(&more, 1, 100) == 0);
		}
		if (round == 2)
			break;
		MUST(ask_named(&s, KEEPER_FREEZE, a.id, a.pid, 0, &e));
		MUST(ask_named(&s, KEEPER_FREEZE, a.id, a.pid, 0, &e));
	}
	destroy(&s, &a, a.pid); /* frozen */
	REFUSED("gone", ask_named(&s, KEEPER_FREEZE, a.id, a.pid, 1, &e), ERR_NOT_FOUND, a.id);
	stop_server(&s);
}

static void does_not_freeze_without_v2(void)
{
	begin(false);
	if (s.k.cgroups.version == 2)
		SKIP("this machine has v2");
	CHECK(s.k.restrictions.freezer == 0);
	make_cell(&s, "a", &a);
	REFUSED("v1", ask_named(&s, KEEPER_FREEZE, a.id, a.pid, 1, &e), ERR_UNSUPPORTED,
		"pause needs cgroup v2");
	destroy(&s, &a, 0);
	stop_server(&s);
}

/* With and without cgroup.kill. */
static void destroys_what_still_runs(void)
{
	for (int unified = 0; unified < 2; unified++) {
		int out;

		begin(unified != 0);
		make_cell(&s, "a", &a);
		make_cell(&s, "b", &b);
		start_shell(&a, "for i in 1 2 3 4 5; do sleep 1000 & done; wait", "user", &out);
		CHECK(count_dirs(&s, a.id) >= 1);
		destroy(&s, &a, 0);
		CHECK(!ended(b.pidfd, 50));
		destroy(&s, &b, b.pid);
		/* Again, and one that never was. */
		MUST(ask_named(&s, KEEPER_DESTROY, a.id, a.pid, 0, &e));
		MUST(ask_named(&s, KEEPER_DESTROY, "never-was", 0, 0, &e));
		stop_server(&s);
	}
}

/* A sweep, as every cordon run does it, leaves them alone even when nobody is in them any more: the
 * server wants to know how they ended. */
static void leftovers_wait_for_their_server(void)
{
	begin(true);
	make_cell(&s, "a", &a);
	kill_keeper(&s);
	agent_release(&a.agent);
	CHECK(ended(a.pidfd, 10000));
	cgroups_sweep(&s.k.cgroups);
	CHECK(count_dirs(&s, a.id) >= 1);
	spawn_keeper(&s);
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static void ids_are_taken_once(void)
{
	struct keeper_create r;

	begin(true);
	make_cell(&s, "a", &a);
	r = plan(&s, "a");
	REFUSED("twice", try_create(&s, &r, &b, &e), ERR_CONFLICT, "a-");
	CHECK(!ended(a.pidfd, 50));
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

/* The lock on a cell's ids is held by the cell. */
static void ids_stay_taken(void)
{
	char path[64], text[128];
	unsigned inside, outside;
	struct err e;

	begin(true);
	make_cell(&s, "a", &a);
	kill_keeper(&s);
	(void)snprintf(path, sizeof(path), "/proc/%u/uid_map", a.pid);
	CHECK(io_read_file(AT_FDCWD, path, text, sizeof(text), &e) > 0);
	CHECK(sscanf(text, "%u %u", &inside, &outside) == 2 && outside >= 0x70000000U);
	(void)snprintf(path, sizeof(path), "/run/cordon/ids.d/%u", (outside - 0x70000000U) >> 16);
	OWN_FD slot = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(slot >= 0 && flock(slot, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
	spawn_keeper(&s);
	destroy(&s, &a, a.pid);
	CHECK(flock(slot, LOCK_EX | LOCK_NB) == 0);
	stop_server(&s);
}

static void programs_do_not_see_what_pid1_keeps(void)
{
	char path[64], target[128], *text;
	ssize_t n;

	begin(true);
	make_cell(&s, "a", &a);
	/* PID 1 has them ... */
	(void)snprintf(path, sizeof(path), "/proc/%u/fd/%d", a.pid, INIT_FD_ID_SLOT);
	n = readlink(path, target, sizeof(target) - 1);
	CHECK(n > 0);
	target[n] = '\0';
	CHECK_HAS("slot", target, "/run/cordon/ids.d/");
	(void)snprintf(path, sizeof(path), "/proc/%u/fd/%d/u0", a.pid, INIT_FD_DISK);
	CHECK(access(path, F_OK) == 0);
	/* ... and can change nothing by them ... */
	(void)snprintf(path, sizeof(path), "/proc/%u/fd/%d/u0/made", a.pid, INIT_FD_DISK);
	CHECK(mkdir(path, 0755) < 0 && errno == EROFS);
	/* ... and programs have only their own. */
	for (const char *const *user = (const char *const[]){ "root", "user", NULL }; *user != NULL;
	     user++) {
		text = run_shell(&a, "cd /proc/self/fd && echo *", *user);
		CHECK_STR(text, "0 1 2 3\n"); /* 3: the directory that the shell reads */
		free(text);
	}
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

enum { LAYER, MOUNT, MOUNT_RW };

static const struct {
	const char *name;
	int kind;
	uint32_t root;
	const char *path;
	enum err_code code; /* ERR_NONE: allowed */
	const char *part;
} sources[] = {
	{ "a mount", MOUNT, ROOT_READ, "dir", ERR_NONE, "" },
	{ "the root itself", MOUNT, ROOT_READ, "", ERR_NONE, "" },
	{ "a file", MOUNT, ROOT_READ, "dir/file", ERR_NONE, "" },
	{ "a writable root read-only", MOUNT, ROOT_WRITE, "", ERR_NONE, "" },
	{ "a writable mount", MOUNT_RW, ROOT_WRITE, "", ERR_NONE, "" },
	{ "no such root", MOUNT, ROOTS, "", ERR_DENIED, "may not be used" },
	{ "far from any root", MOUNT, UINT32_MAX, "", ERR_DENIED, "may not be used" },
	{ "a root that is a cgroup", MOUNT, ~(uint32_t)0 - 4, "", ERR_DENIED, "may not be used" },
	{ "write below read-only", MOUNT_RW, ROOT_READ, "dir", ERR_DENIED, "may not be used" },
	{ "a layer as mount", MOUNT, 0, "", ERR_DENIED, "may not be used" },
	{ "a mount as layer", LAYER, ROOT_READ, "dir", ERR_DENIED, "may not be used" },
	{ "a layer from nowhere", LAYER, ROOTS, "", ERR_DENIED, "may not be used" },
	{ "up", MOUNT, ROOT_READ, "..", ERR_DENIED, "leads outside" },
	{ "up and down", MOUNT, ROOT_READ, "../write", ERR_DENIED, "leads outside" },
	{ "down and up and up", MOUNT, ROOT_READ, "dir/../..", ERR_DENIED, "leads outside" },
	{ "from the top", MOUNT, ROOT_READ, "/etc", ERR_DENIED, "leads outside" },
	{ "a link out", MOUNT, ROOT_READ, "out", ERR_DENIED, "link" },
	{ "a link inside", MOUNT, ROOT_READ, "in", ERR_DENIED, "link" },
	{ "has a link", MOUNT, ROOT_READ, "in/file", ERR_DENIED, "link" },
	{ "not there", MOUNT, ROOT_READ, "none", ERR_SYSTEM, "No such file" },
	{ "below a file", MOUNT, ROOT_READ, "dir/file/x", ERR_SYSTEM, "Not a directory" },
	{ "a pipe", MOUNT, ROOT_READ, "pipe", ERR_INVALID, "neither a directory nor a file" },
	{ "a root that is absent", LAYER, HOST_ROOTS - 1, "", ERR_DENIED, "may not be used" },
	{ "up, as layer", LAYER, 0, "..", ERR_DENIED, "leads outside" },
	{ "a template as mount", MOUNT, ROOT_TEMPLATES, "good", ERR_DENIED, "may not be used" },
	{ "all templates", LAYER, ROOT_TEMPLATES, "", ERR_DENIED, "not a name" },
	{ "all templates by a dot", LAYER, ROOT_TEMPLATES, ".", ERR_DENIED, "not a name" },
	{ "up from templates", LAYER, ROOT_TEMPLATES, "..", ERR_DENIED, "leads outside" },
	{ "around templates", LAYER, ROOT_TEMPLATES, "../read", ERR_DENIED, "leads outside" },
	{ "into a template", LAYER, ROOT_TEMPLATES, "good/in", ERR_DENIED, "not a name" },
	{ "down and up to one", LAYER, ROOT_TEMPLATES, "good/../good", ERR_DENIED, "not a name" },
	{ "a hidden template", LAYER, ROOT_TEMPLATES, ".hidden", ERR_DENIED, "not a name" },
	{ "a template by a link", LAYER, ROOT_TEMPLATES, "link", ERR_DENIED, "link" },
	{ "a file as template", LAYER, ROOT_TEMPLATES, "file", ERR_DENIED, "belongs to root" },
	{ "a device as template", LAYER, ROOT_TEMPLATES, "device", ERR_DENIED, "belongs to root" },
	{ "a template all can write", LAYER, ROOT_TEMPLATES, "all", ERR_DENIED, "belongs to root" },
	{ "a template a group can write", LAYER, ROOT_TEMPLATES, "group", ERR_DENIED,
	  "belongs to root" },
	{ "another user's template", LAYER, ROOT_TEMPLATES, "theirs", ERR_DENIED,
	  "belongs to root" },
	{ "no such template", LAYER, ROOT_TEMPLATES, "none", ERR_SYSTEM, "No such file" },
};

static void make_tree(void)
{
	char at[128];

	(void)snprintf(at, sizeof(at), "%s/read", s.folder);
	CHECK(chdir(at) == 0 && mkdir("dir", 0755) == 0 && symlink("/etc", "out") == 0 &&
	      symlink("dir", "in") == 0 && mkfifo("pipe", 0644) == 0 &&
	      mknod("dir/file", S_IFREG | 0644, 0) == 0 && chdir("/") == 0);
	(void)snprintf(at, sizeof(at), "%s/templates", s.folder);
	CHECK(chdir(at) == 0 && mkdir("good", 0755) == 0 && mkdir("good/in", 0755) == 0 &&
	      mkdir(".hidden", 0755) == 0 && symlink("good", "link") == 0 &&
	      mknod("file", S_IFREG | 0644, 0) == 0 && mkdir("all", 0755) == 0 &&
	      chmod("all", 0777) == 0 && mkdir("group", 0755) == 0 && chmod("group", 0775) == 0 &&
	      mkdir("theirs", 0755) == 0 && chown("theirs", 1000, 1000) == 0 &&
	      mknod("device", S_IFCHR | 0600, makedev(1, 3)) == 0 && chdir("/") == 0);
}

static void sources_stay_below_their_roots(void)
{
	begin(true);
	make_tree();
	for (size_t i = 0; i < COUNT(sources); i++) {
		struct keeper_create r = plan(&s, "a");
		struct cell_source *from = &r.mounts[0].from;

		if (sources[i].kind == LAYER) {
			from = &r.layer_from[r.nlayers - 1];
		} else {
			r.nmounts = 1;
			(void)snprintf(r.mounts[0].at, sizeof(r.mounts[0].at), "/mnt/it");
			r.mounts[0].flags =
				sources[i].kind == MOUNT_RW ? (uint32_t)CELL_MOUNT_WRITABLE : 0;
		}
		from->root = sources[i].root;
		(void)snprintf(from->path, sizeof(from->path), "%s", sources[i].path);
		if (sources[i].code == ERR_NONE) {
			char *text;

			make_plan(&s, &r, &a);
			text = run_shell(&a,
					 "touch /mnt/it/made 2>/dev/null; test -e /mnt/it/made && "
					 "echo wrote; echo $?",
					 "user");
			CHECK_CASE(sources[i].name, (strstr(text, "wrote") != NULL) ==
							    (sources[i].kind == MOUNT_RW));
			free(text);
			destroy(&s, &a, a.pid);
		} else {
			REFUSED(sources[i].name, try_create(&s, &r, &a, &e), sources[i].code,
				sources[i].part);
			CHECK(count_dirs(&s, r.id) == 0);
		}
	}
	make_cell(&s, "a", &a); /* it goes on */
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static void layers_of_a_diff_stay_below_too(void)
{
	struct keeper_diff r;
	struct keeper_reply reply;
	int ends[2];

	begin(true);
	make_tree();
	make_cell(&s, "a", &a);
	memset(&r, 0, sizeof(r));
	r.named.op = KEEPER_DIFF;
	r.named.pid = a.pid;
	(void)snprintf(r.named.id, sizeof(r.named.id), "%s", a.id);
	r.nlayers = 1;
	r.layer_at[0][0] = '/';
	r.layer_from[0].root = ROOT_READ;
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	REFUSED("no layer", keeper_client_call(&s.k, &r, sizeof(r), &ends[1], 1, &reply, NULL, &e),
		ERR_DENIED, "may not be used");
	r.layer_from[0].root = 0;
	(void)snprintf(r.layer_from[0].path, sizeof(r.layer_from[0].path), "../..");
	REFUSED("up", keeper_client_call(&s.k, &r, sizeof(r), &ends[1], 1, &reply, NULL, &e),
		ERR_DENIED, "leads outside");
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static void no_cell_is_without_limits(void)
{
	struct keeper_create r;

	begin(true);
	r = plan(&s, "a");
	r.limits.memory_bytes = 0;
	REFUSED("memory", try_create(&s, &r, &a, &e), ERR_DENIED, "limits");
	r = plan(&s, "a");
	r.limits.pids = 0;
	REFUSED("pids", try_create(&s, &r, &a, &e), ERR_DENIED, "limits");
	r = plan(&s, "a");
	r.flags = 0;
	REFUSED("mortal", try_create(&s, &r, &a, &e), ERR_DENIED, "linger");
	stop_server(&s);
}

/* The first number that the cell's cgroup lists and that is not PID 1. */
static uint32_t pid_of_program(void)
{
	char path[96], text[512], *at = text;
	struct err e;

	(void)snprintf(path, sizeof(path), CELL_CGROUP_PREFIX "%s/cgroup.procs", a.id);
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		if (s.k.cgroups.dirs[i] >= 0) {
			CHECK(io_read_file(s.k.cgroups.dirs[i], path, text, sizeof(text), &e) > 0);
			break;
		}
	for (; *at != '\0'; at++) {
		uint32_t pid = (uint32_t)strtoul(at, &at, 10);

		if (pid != a.pid)
			return pid;
	}
	return 0;
}

static void only_pid1_of_the_cell_is_it(void)
{
	int from = -1, out;

	begin(true);
	make_cell(&s, "a", &a);
	make_cell(&s, "b", &b);
	start_shell(&a, "echo; sleep 1000", "user", &out);
	CHECK(read(out, &(char){ 0 }, 1) == 1);
	const struct {
		const char *name;
		uint32_t pid;
	} wrong[] = { { "nobody", 0 },
		      { "the machine's", 1 },
		      { "another cell's", b.pid },
		      { "ours", (uint32_t)getpid() },
		      { "the keeper", (uint32_t)s.k.pid },
		      { "a program's", pid_of_program() },
		      { "no process", 4194303 } };
	CHECK(wrong[5].pid != 0);
	for (size_t i = 0; i < COUNT(wrong); i++)
		REFUSED(wrong[i].name, ask_diff(&s, a.id, wrong[i].pid, &from, &e), ERR_NOT_FOUND,
			"is not PID 1");
	MUST(ask_diff(&s, a.id, a.pid, &from, &e));
	free(read_list(from));
	/* A wrong pid ends nobody but the cell that is named. */
	destroy(&s, &a, b.pid);
	CHECK(!ended(b.pidfd, 50));
	MUST(ask_named(&s, KEEPER_DESTROY, "never-was", b.pid, 0, &e));
	MUST(ask_named(&s, KEEPER_DESTROY, "never-was", (uint32_t)getpid(), 0, &e));
	CHECK(!ended(b.pidfd, 50));
	destroy(&s, &b, b.pid);
	stop_server(&s);
}

TEST_MAIN({ "an heir can do it all", an_heir_can_do_it_all }, { "freezes", freezes },
	  { "does not freeze without v2", does_not_freeze_without_v2 },
	  { "destroys what still runs", destroys_what_still_runs },
	  { "leftovers wait for their server", leftovers_wait_for_their_server },
	  { "ids are taken once", ids_are_taken_once }, { "ids stay taken", ids_stay_taken },
	  { "programs do not see what PID 1 keeps", programs_do_not_see_what_pid1_keeps },
	  { "sources stay below their roots", sources_stay_below_their_roots },
	  { "layers of a diff stay below too", layers_of_a_diff_stay_below_too },
	  { "no cell is without limits", no_cell_is_without_limits },
	  { "only PID 1 of the cell is it", only_pid1_of_the_cell_is_it })
