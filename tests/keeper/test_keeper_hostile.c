/* Goal: a PID 1 that was taken over gains nothing from a keeper, what a server may ask for is
 * bounded, and without privileges a keeper does no more than its user may.
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

/* --- a PID 1 that was taken over ---------------------------------------------------------------
 */

struct rogue {
	pid_t pid;
	int store; /* what it shows as its store */
	char id[CELL_ID_MAX];
};

/* A process that passes for the PID 1 of a cell, with a descriptor of its choice as the store. */
static void make_rogue(struct rogue *r, const char *id)
{
	struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_NEWPID, .exit_signal = SIGCHLD };
	char path[96], pid[16];

	(void)snprintf(r->id, sizeof(r->id), "%s-%d", id, (int)getpid());
	r->pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	CHECK(r->pid >= 0);
	if (r->pid == 0) {
		if (dup2(r->store, INIT_FD_DISK) >= 0 &&
		    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0)
			for (;;)
				(void)pause();
		_exit(1);
	}
	for (const char *const *map = (const char *const[]){ "uid_map", "gid_map", NULL };
	     *map != NULL; map++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)r->pid, *map);
		MUST(io_write_file(AT_FDCWD, path, "0 1500000000 65536", &e));
	}
	(void)snprintf(pid, sizeof(pid), "%d", (int)r->pid);
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++) {
		int dir = s.k.cgroups.dirs[i];

		if (dir < 0)
			continue;
		(void)snprintf(path, sizeof(path), CELL_CGROUP_PREFIX "%s", r->id);
		CHECK(mkdirat(dir, path, 0755) == 0);
		(void)snprintf(path, sizeof(path), CELL_CGROUP_PREFIX "%s/cgroup.procs", r->id);
		MUST(io_write_file(dir, path, pid, &e));
	}
	for (int i = 0; i < 1000; i++) { /* until it has its descriptor */
		struct stat st, want;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)r->pid, INIT_FD_DISK);
		if (stat(path, &st) == 0 && fstat(r->store, &want) == 0 && st.st_ino == want.st_ino)
			return;
		(void)usleep(1000);
	}
	FAIL("rogue is not ready");
}

static void end_rogue(struct rogue *r)
{
	struct err e = { 0 };
	int tries = 0;

	while (ask_named(&s, KEEPER_DESTROY, r->id, 0, 0, &e) < 0)
		CHECK(e.code == ERR_CONFLICT && tries++ < 100);
	CHECK(waitpid(r->pid, NULL, 0) == r->pid);
	(void)close(r->store);
}

/* Whatever a PID 1 calls its store: the reader sees what the cell's root could see, no more. */
static void a_rogue_gains_nothing(void)
{
	struct rogue r;
	char at[128], *text;
	int from;

	begin(true);
	(void)snprintf(at, sizeof(at), "%s/write", s.folder);
	CHECK(chdir(at) == 0);
	/* Readable by all: shows that the way is otherwise open. */
	CHECK(mkdir("open", 0755) == 0 && mkdir("open/u0", 0755) == 0 &&
	      mkdir("open/u0/plain", 0755) == 0 && mkdir("open/u0/closed", 0700) == 0 &&
	      mkdir("open/u0/closed/secret", 0755) == 0 && symlink("/etc", "open/u0/link") == 0);
	r.store = open("open", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_rogue(&r, "r");
	MUST(ask_diff(&s, r.id, (uint32_t)r.pid, &from, &e));
	text = read_list(from);
	CHECK_HAS("the way is open", text, "/plain\n");
	CHECK_HAS("closed is told", text, "T\t40700\t0\t/closed\n");
	CHECK(strstr(text, "secret") == NULL && strstr(text, "passwd") == NULL);
	CHECK(strstr(text, "/link/") == NULL);
	free(text);
	end_rogue(&r);
	/* A directory that only the machine's root may enter. */
	CHECK(mkdir("private", 0700) == 0 && mkdir("private/u0", 0755) == 0 &&
	      mkdir("private/u0/secret", 0755) == 0);
	r.store = open("private", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_rogue(&r, "r");
	MUST(ask_diff(&s, r.id, (uint32_t)r.pid, &from, &e));
	text = read_list(from);
	CHECK_STR(text, ""); /* and no end: nobody takes it for a list */
	free(text);
	end_rogue(&r);
	/* Links, where directories should be. */
	CHECK(mkdir("links", 0755) == 0 && symlink("/", "links/u0") == 0 &&
	      symlink("/etc", "links/u1") == 0 && symlink("/tmp", "links/tmp") == 0);
	r.store = open("links", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_rogue(&r, "r");
	MUST(ask_diff(&s, r.id, (uint32_t)r.pid, &from, &e));
	text = read_list(from);
	CHECK_STR(text, "");
	free(text);
	end_rogue(&r);
	/* No directory at all. */
	r.store = open("/dev/zero", O_RDWR | O_CLOEXEC);
	make_rogue(&r, "r");
	REFUSED("a device", ask_diff(&s, r.id, (uint32_t)r.pid, &from, &e), ERR_SYSTEM, r.id);
	end_rogue(&r);
	CHECK(chdir("/") == 0);
	stop_server(&s);
}

/* --- bounds ------------------------------------------------------------------------------------
 */

#define READERS 32 /* at a time, of one keeper */

static void readers_are_bounded(void)
{
	int from[READERS + 1];

	begin(true);
	make_cell(&s, "a", &a);
	/* More than a pipe holds, so that a reader waits for us. */
	free(run_shell(&a,
		       "cd /tmp; i=0; while [ $i -lt 3000 ]; do : > a-long-name-for-a-file-$i; "
		       "i=$((i+1)); done",
		       "user"));
	for (int i = 0; i < READERS; i++)
		MUST(ask_diff(&s, a.id, a.pid, &from[i], &e));
	REFUSED("one more", ask_diff(&s, a.id, a.pid, &from[READERS], &e), ERR_LIMIT, "32 cells");
	for (int i = 0; i < READERS - 1; i++)
		(void)close(from[i]); /* that reader ends */
	free(read_list(from[READERS - 1]));
	for (int tries = 0;; tries++) {
		struct err e;

		if (ask_diff(&s, a.id, a.pid, &from[READERS], &e) == 0)
			break;
		CHECK(e.code == ERR_LIMIT && tries < 1000);
		(void)usleep(10000);
	}
	char *text = read_list(from[READERS]);

	CHECK_HAS("whole", text, "E\t0\t0\t/\n");
	free(text);
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static void survives_a_lack_of_descriptors(void)
{
	struct rlimit none = { 3, 4096 }, many = { 1024, 4096 };
	struct keeper_create r;
	int from;

	begin(true);
	make_cell(&s, "a", &a);
	CHECK(prlimit(s.k.pid, RLIMIT_NOFILE, &none, NULL) == 0);
	REFUSED("diff", ask_diff(&s, a.id, a.pid, &from, &e), ERR_LIMIT, "descriptors");
	r = plan(&s, "b");
	REFUSED("create", try_create(&s, &r, &b, &e), ERR_LIMIT, "descriptors");
	CHECK(prlimit(s.k.pid, RLIMIT_NOFILE, &many, NULL) == 0);
	MUST(ask_diff(&s, a.id, a.pid, &from, &e));
	free(read_list(from));
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static int count_links(pid_t pid)
{
	char path[64];
	DIR *d;
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n;
}

/* A keeper of a thousand cells holds no more than one of none. */
static void keeps_nothing_of_them(void)
{
	int before, from;

	begin(true);
	before = count_links(s.k.pid);
	make_cell(&s, "a", &a);
	make_cell(&s, "b", &b);
	MUST(ask_diff(&s, a.id, a.pid, &from, &e));
	free(read_list(from));
	CHECK(count_links(s.k.pid) == before);
	destroy(&s, &a, a.pid);
	destroy(&s, &b, b.pid);
	CHECK(count_links(s.k.pid) == before);
	stop_server(&s);
}

/* --- without privileges ------------------------------------------------------------------------
 */

static void an_ordinary_user_has_heirs_too(void)
{
	char home[] = "/tmp/cordon-keeper-home-XXXXXX", *text;
	int from;

	if (geteuid() != 0)
		SKIP("needs root, to become another user");
	CHECK(mkdtemp(home) != NULL && chown(home, 54322, 54322) == 0);
	CHECK(setenv("HOME", home, 1) == 0);
	CHECK(setgroups(0, NULL) == 0 && setresgid(54322, 54322, 54322) == 0 &&
	      setresuid(54322, 54322, 54322) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	start_server(&s, true);
	if (s.k.cgroups.version != 0)
		SKIP("this user has cgroups");
	make_cell(&s, "a", &a);
	make_cell(&s, "b", &b);
	free(run_shell(&a, "echo new > /tmp/new", ""));
	kill_keeper(&s);
	/* Without the namespace, the next one is a stranger. */
	spawn_keeper(&s);
	REFUSED("stranger", ask_diff(&s, a.id, a.pid, &from, &e), ERR_NOT_FOUND, "is not PID 1");
	kill_keeper(&s);
	MUST(rootless_open((pid_t)a.pid, true, &s.userns, &e));
	spawn_keeper(&s);
	REFUSED("ours", ask_diff(&s, a.id, (uint32_t)getpid(), &from, &e), ERR_NOT_FOUND, "");
	MUST(ask_diff(&s, a.id, a.pid, &from, &e));
	text = read_list(from);
	CHECK_HAS("added", text, "/tmp/new\n");
	CHECK_HAS("end", text, "E\t0\t0\t/\n");
	free(text);
	REFUSED("freeze", ask_named(&s, KEEPER_FREEZE, a.id, a.pid, 1, &e), ERR_UNSUPPORTED, "v2");
	destroy(&s, &a, a.pid);
	CHECK(!ended(b.pidfd, 50));
	MUST(ask_named(&s, KEEPER_DESTROY, b.id, (uint32_t)getpid(), 0, &e));
	destroy(&s, &b, b.pid);
	MUST(ask_named(&s, KEEPER_DESTROY, b.id, b.pid, 0, &e));
	stop_server(&s);
	(void)snprintf(s.folder, sizeof(s.folder), "%s", home);
	stop_server(&s);
}

TEST_MAIN({ "a rogue gains nothing", a_rogue_gains_nothing },
	  { "readers are bounded", readers_are_bounded },
	  { "survives a lack of descriptors", survives_a_lack_of_descriptors },
	  { "keeps nothing of them", keeps_nothing_of_them },
	  { "an ordinary user has heirs too", an_ordinary_user_has_heirs_too })
