/* Goal: in a cell with an engine, PID 1 is cordon-shim, with what that engine needs and no more;
 * where cordon-shim is not installed, such a cell is refused and others are made as before.
 *
 * Needs root. The program copies itself and the keeper's programs to a folder, with cordon-init in
 * the place of cordon-shim: the two differ in what they do after they were started, which this is
 * not about. It executes itself again from there, because a keeper is found beside its starter. */
#include "server.h"

#include <sys/wait.h>

static struct server s;
static struct cell a;
static char folder[64];

#define MOVED "moved-test"

static void run_tool(const char *tool, const char *a1, const char *a2)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl(tool, tool, "-rf", a1, a2, (char *)NULL);
		_exit(1);
	}
	CHECK_CASE(a1, waitpid(pid, &status, 0) == pid && status == 0);
}

static void copy(const char *from_dir, const char *from, const char *to)
{
	char source[256], target[256];

	(void)snprintf(source, sizeof(source), "%s/%s", from_dir, from);
	(void)snprintf(target, sizeof(target), "%s/%s", folder, to);
	run_tool("/bin/cp", source, target);
}

__attribute__((constructor)) static void move_to_folder(void)
{
	char path[128], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (geteuid() != 0 || n < 0)
		return;
	path[n] = '\0';
	slash = strrchr(path, '/');
	*slash = '\0';
	if (strcmp(slash + 1, MOVED) == 0) {
		(void)snprintf(folder, sizeof(folder), "%.60s", path);
		return;
	}
	(void)snprintf(folder, sizeof(folder), "/tmp/cordon-engine-test-XXXXXX");
	if (mkdtemp(folder) == NULL || chmod(folder, 0755) < 0)
		_exit(1);
	copy(path, slash + 1, MOVED);
	copy(path, "cordon-keeper", "cordon-keeper");
	copy(path, "cordon-init", "cordon-init");
	copy(path, "cordon-init", "cordon-shim");
	(void)snprintf(path, sizeof(path), "%s/" MOVED, folder);
	(void)execl(path, MOVED, (char *)NULL);
	_exit(1);
}

static void begin(void)
{
	if (geteuid() != 0)
		SKIP("needs root");
	start_server(&s, false);
}

static void end(void)
{
	destroy(&s, &a, a.pid);
	stop_server(&s);
}

static void make(const char *id, enum cell_engine engine)
{
	struct keeper_create r = plan(&s, id);

	r.engine = engine;
	r.profile = engine == CELL_ENGINE_MICROVM ? CELL_LOCKED : CELL_STANDARD;
	make_plan(&s, &r, &a);
}

static void says(const char *script, const char *want)
{
	char *text = run_shell(&a, script, "");

	CHECK_STR(text, want);
	free(text);
}

#define NAME_PID1 "tr '\\0' ' ' < /proc/1/cmdline"
#define MAKE_USERNS "unshare -U true 2> /dev/null && echo yes || echo no"
/* Mount namespaces belong to a user namespace, which the first unshare makes. */
#define MAKE_NETNS "unshare -Ur unshare -n true 2> /dev/null && echo yes || echo no"
#define MAKE_MOUNTNS \
	"unshare -Ur unshare -m --propagation unchanged true 2> /dev/null && echo yes || echo no"
#define XATTR                                                                                   \
	"cd /tmp && touch f && python3 -c 'import os; os.setxattr(\"f\", \"user.a\", b\"1\")' " \
	"2> /dev/null && echo yes || echo no"

/* As an engine that was taken over: a file system of terminals of its own, in a mount namespace of
 * its own. The flags of the second mount take `nodev` from it. 64 terminals are the cell's. */
#define MANY_TERMINALS                                                                          \
	"unshare -Ur unshare -m --propagation unchanged python3 -c '\n"                         \
	"import ctypes, os\n"                                                                   \
	"c = ctypes.CDLL(None, use_errno=True)\n"                                               \
	"print(c.mount(b\"x\", b\"/mnt\", b\"devpts\", 0xe, b\"newinstance,ptmxmode=0666\"))\n" \
	"print(c.mount(b\"none\", b\"/mnt\", None, 0x1021, None))\n"                            \
	"try:\n"                                                                                \
	"    held = [os.open(\"/mnt/ptmx\", os.O_RDWR | os.O_NOCTTY) for i in range(100)]\n"    \
	"    print(len(held))\n"                                                                \
	"except OSError as e:\n"                                                                \
	"    print(e.strerror)\n' 2>&1"

static void gvisor_gets_no_more_terminals(void)
{
	begin();
	make("terminals", CELL_ENGINE_GVISOR);
	says(MANY_TERMINALS, "0\n0\nPermission denied\n");
	end();
}

static void gvisor_has_what_runsc_needs(void)
{
	begin();
	make("gvisor", CELL_ENGINE_GVISOR);
	says(NAME_PID1, "cordon-shim ");
	says(MAKE_USERNS, "yes\n");
	says(MAKE_MOUNTNS, "yes\n");
	says(MAKE_NETNS, "no\n");
	says(XATTR, "no\n");
	end();
}

/* Needed to run anything in it: the shim of a microVM is locked, and has one user. */
static void microvm_is_locked(void)
{
	begin();
	make("microvm", CELL_ENGINE_MICROVM);
	says(NAME_PID1, "cordon-shim ");
	says("grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n");
	says(MAKE_USERNS, "no\n");
	end();
}

static void containers_are_as_before(void)
{
	begin();
	make("container", CELL_ENGINE_NONE);
	says(NAME_PID1, "cordon-init ");
	says(MAKE_USERNS, "no\n");
	says(XATTR, "yes\n");
	end();
}

/* Root of the machine owns the directory, so file capabilities would count there. */
static void no_capabilities_outside(void)
{
	struct keeper_create r;

	begin();
	r = plan(&s, "outside");
	r.engine = CELL_ENGINE_GVISOR;
	r.nmounts = 1;
	(void)snprintf(r.mounts[0].at, sizeof(r.mounts[0].at), "/mnt");
	r.mounts[0].from.root = ROOT_WRITE;
	r.mounts[0].flags = CELL_MOUNT_WRITABLE;
	make_plan(&s, &r, &a);
	says("cp /bin/true /mnt/p && python3 -c 'import os\n"
	     "try: os.setxattr(\"/mnt/p\", \"security.capability\", bytes(20))\n"
	     "except OSError as e: print(e.strerror)\n"
	     "try: os.chmod(\"/mnt/p\", 0o4755)\n"
	     "except OSError as e: print(e.strerror)'",
	     "Operation not supported\nOperation not permitted\n");
	end();
}

static void refused_without_shim(void)
{
	struct keeper_create r;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/cordon-shim", folder);
	CHECK(geteuid() != 0 || unlink(path) == 0);
	begin();
	r = plan(&s, "none");
	r.engine = CELL_ENGINE_GVISOR;
	REFUSED("gvisor", try_create(&s, &r, &a, &e), ERR_UNSUPPORTED,
		"cordon-shim is not installed");
	make("container", CELL_ENGINE_NONE);
	says("echo works", "works\n");
	end();
	run_tool("/bin/rm", folder, NULL);
}

TEST_MAIN({ "gvisor has what runsc needs", gvisor_has_what_runsc_needs },
	  { "gvisor gets no more terminals", gvisor_gets_no_more_terminals },
	  { "microvm is locked", microvm_is_locked },
	  { "containers are as before", containers_are_as_before },
	  { "no capabilities outside", no_capabilities_outside },
	  { "refused without shim", refused_without_shim })
