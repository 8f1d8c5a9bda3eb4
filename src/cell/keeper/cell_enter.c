/* cell_enter.c - the steps of the new PID 1 before it executes cordon-init or cordon-shim.
 *
 * The process is PID 1 of the new cell's pid and user namespaces. At first it has every capability
 * over these, and sees the old root. While the builder assembles the file system, PID 1 takes the
 * steps that need no file system. Then it waits for a byte from the builder (the go), and gives up
 * its rights. cell_enter_enter() is the whole list. The order must not change, because each step
 * needs rights that later steps remove:
 *
 *   before the go   cgroup (limits hold from here on), then namespaces (the cgroup namespace has
 *                   the cgroup just entered as its root), network, host name, descriptors
 *   after the go    bounding set (needs CAP_SETPCAP), ids (need CAP_SETUID, the locked profile
 *                   loses all capabilities here), keyring, rlimits, Landlock and filters (need
 *                   no_new_privs or CAP_SYS_ADMIN in the cell), exec (removes capabilities outside
 *                   of the bounding set)
 *
 * A step that fails ends the process. Its error goes to the builder, and the cell is not made. */
#include "cell/keeper/cell_build.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "cell/keeper/restrict.h"
#include "cell/keeper/source.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

/* The first descriptors of PID 1's program. Behind them INIT_FD_ID_SLOT, INIT_FD_DISK,
 * INIT_FD_EGRESS, INIT_FD_DIAG and INIT_FD_GUEST. */
enum { CHANNEL_FD = 3, PROGRAM_FD, SYNC_FD };

/* clone3(2) did not make these namespaces: a network namespace takes half a millisecond, which
 * passes here while the builder assembles the root. */
static int enter_own_namespaces(const char *name, struct err *e)
{
	if (unshare(CLONE_NEWCGROUP | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return err_sys(e, "cgroup, network, IPC and UTS namespaces");
	if (sethostname(name, strlen(name)) < 0 || setdomainname("", 0) < 0)
		return err_sys(e, "host name");
	return 0;
}

/* gVisor's engine may make namespaces. Most kinds use kernel memory that no limit counts, so each
 * kind has a maximum, the cell's own namespace included. It cannot change them, as /proc/sys is
 * read-only. */
static int enter_limit_namespaces(int proc_sys_fd, struct err *e)
{
	static const char *const files[] = {
		"user/max_user_namespaces",   "user/max_mnt_namespaces", "user/max_net_namespaces",
		"user/max_pid_namespaces",    "user/max_ipc_namespaces", "user/max_uts_namespaces",
		"user/max_cgroup_namespaces", "user/max_time_namespaces"
	};

	for (size_t i = 0; i < COUNT(files); i++)
		if (io_write_file(proc_sys_fd, files[i], "16", e) < 0)
			return -1;
	return 0;
}

/* If the cell lingers, the disk's root directory comes with the byte. */
static int enter_wait_for_go(int sync_fd, struct err *e)
{
	int disk = -1;
	size_t n = 0;
	char go;

	if (io_recv(sync_fd, &go, 1, &disk, 1, &n, e) != 1)
		return err_set(e, ERR_SYSTEM, "the builder has exited");
	if (disk >= 0 && (dup2(disk, INIT_FD_DISK) < 0 || fcntl(INIT_FD_DISK, F_SETFD, 0) < 0))
		return err_sys(e, "descriptors");
	if (chdir("/") < 0)
		return err_sys(e, "chdir /");
	return 0;
}

/* PID 1 runs as root of the cell or, in the locked profile and in a cell with a single id, as the
 * request's user. */
static int enter_become(const struct enter_plan *p, struct err *e)
{
	const struct ids *ids = &p->cell->ids;
	bool single = ids->uid[0].count == 1 && ids->runs == 1;
	bool chosen = single || p->request->profile == CELL_LOCKED;
	uid_t uid = chosen ? p->request->uid : 0;
	gid_t gid = chosen ? p->request->gid : 0;

	if (ids->setgroups && setgroups(0, NULL) < 0)
		return err_sys(e, "setgroups");
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_sys(e, "become user %u", uid);
	return 0;
}

/* A cell that does not linger is killed by the kernel when its keeper dies. A change of ids clears
 * the parent-death signal, so it is set after the last one. If the keeper died before that, the
 * builder's end of the sync socket is closed, too. */
static int enter_die_with_keeper(const struct enter_plan *p, struct err *e)
{
	char byte;

	if ((p->request->flags & CELL_LINGER) != 0)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, "death signal");
	if (recv(p->sync_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		return err_set(e, ERR_SYSTEM, "the keeper has exited");
	return 0;
}

/* Files that a cell writes to a directory of the machine belong to a user of the machine, maybe to
 * root. The cell must not make programs there that run with the rights of that user: no set-id bits
 * and no file capabilities. (The engine gVisor needs CAP_SETFCAP, to map root into a user namespace
 * of its own, its filter refuses to set any extended attribute.) Volumes are in a folder that no
 * user of the machine can enter. */
static bool enter_writes_outside(const struct keeper *k, const struct keeper_create *r)
{
	for (unsigned i = 0; i < r->nmounts; i++)
		if ((r->mounts[i].flags & CELL_MOUNT_WRITABLE) != 0 &&
		    !source_is_volume(k, &r->mounts[i].from))
			return true;
	return false;
}

static int enter_filters(const struct enter_plan *p, struct err *e)
{
	const struct keeper_create *r = p->request;
	unsigned profile = r->engine == CELL_ENGINE_GVISOR ? (unsigned)CELL_PROFILES : r->profile;
	int fd = -1;

	if (enter_writes_outside(p->keeper, r) && restrict_setid(e) < 0)
		return -1;
	if (restrict_calls(profile,
			   (enum restrict_watch)__builtin_popcount(r->flags & CELL_WATCH_ANY), &fd,
			   e) < 0)
		return -1;
	OWN_FD listener = fd; /* none is left in the cell */
	return listener < 0 ? 0 : io_send(p->sync_fd, "l", 1, &listener, 1, e);
}

/* Close all other descriptors, before the limit on open files: the keeper may have more than the
 * cell is allowed. */
static int enter_only_our_fds(struct enter_plan *p, struct err *e)
{
	bool lingers = (p->request->flags & CELL_LINGER) != 0;
	int egress = netns_egress_socket(), diag = egress < 0 ? -1 : netns_diag_socket();
	int slot = lingers ? p->cell->ids.slot_fd : -1;
	int program = p->request->engine == CELL_ENGINE_NONE ? KEEPER_FD_INIT : p->keeper->shim_fd;
	int guest = p->request->engine == CELL_ENGINE_GVISOR ? KEEPER_FD_INIT : -1;
	int fds[] = { p->channel_fd, program, p->sync_fd, slot, -1, egress, diag, guest };

	if (restrict_only_fds(fds, COUNT(fds), CHANNEL_FD, 1U << PROGRAM_FD | 1U << SYNC_FD, e) < 0)
		return -1;
	p->sync_fd = SYNC_FD;
	return egress < 0 ? 0 : io_send(SYNC_FD, "d", 1, NULL, 0, e);
}

/* Standard input, output and error of PID 1 are /dev/null of the cell. */
static int enter_no_stdio(struct err *e)
{
	OWN_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		if (dup2(null, i) < 0)
			return err_sys(e, "open /dev/null");
	return 0;
}

static int cell_enter_enter(struct enter_plan *p, struct err *e)
{
	const struct keeper_create *r = p->request;
	enum cell_profile profile = (enum cell_profile)r->profile;
	bool gvisor = r->engine == CELL_ENGINE_GVISOR;

	/* clang-format off */
	if (cgroup_enter(&p->cell->cgroup, e) < 0
	    || enter_own_namespaces(r->hostname, e) < 0
	    || netns_setup(p->keeper->proc_sys_fd, e) < 0
	    || (gvisor && enter_limit_namespaces(p->keeper->proc_sys_fd, e) < 0)
	    || enter_only_our_fds(p, e) < 0
	    || enter_wait_for_go(p->sync_fd, e) < 0
	    || enter_no_stdio(e) < 0
	    || restrict_drop_caps(profile, gvisor || !enter_writes_outside(p->keeper, r), e) < 0
	    || enter_become(p, e) < 0
	    || restrict_keyring(e) < 0
	    || restrict_rlimits(r->limits.nofile, e) < 0
	    || enter_die_with_keeper(p, e) < 0
	    || (profile == CELL_LOCKED && restrict_no_new_privs(e) < 0)
	    || (!gvisor && restrict_landlock(e) < 0)
	    || enter_filters(p, e) < 0)
		return -1;
	/* clang-format on */
	return 0;
}

void cell_enter(const struct enter_plan *plan)
{
	char init[] = "cordon-init", shim[] = "cordon-shim";
	char *argv[] = { plan->request->engine == CELL_ENGINE_NONE ? init : shim, NULL };
	char *envp[] = { NULL };
	struct enter_plan p = *plan;
	struct err e = { 0 };

	if (cell_enter_enter(&p, &e) == 0) {
		/* By the link in /proc: the filter of the locked profile refuses execveat(2). */
		(void)execve("/proc/self/fd/4", argv, envp);
		(void)err_sys(&e, "start %s", argv[0]);
	}
	IGNORED(io_send(p.sync_fd, &e, sizeof(e), NULL, 0, &(struct err){ 0 }),
		"the builder has exited, too");
	_exit(1);
}
