/* process.c - namespaces, other processes, identities and capabilities. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

enum { NR_CLONE3 = 435 };

static const char *do_unshare(const struct attack *a)
{
	return answer(syscall(SYS_unshare, a->num));
}

static const char *do_clone(const struct attack *a)
{
	long pid = syscall(SYS_clone, a->num | SIGCHLD, 0L, 0L, 0L, 0L);

	if (pid == 0)
		_exit(0);
	return answer(pid);
}

static const char *do_clone3(const struct attack *a)
{
	uint64_t args[11] = { (uint64_t)a->num };
	long pid;

	args[4] = SIGCHLD;
	pid = syscall(NR_CLONE3, args, sizeof(args));
	if (pid == 0)
		_exit(0);
	return answer(pid);
}

/* arg is a file of /proc/self/ns: even one's own is not to be entered again. */
static const char *setns_self(const struct attack *a)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", (const char *)a->arg);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return answer_path(-1);
	return answer(syscall(SYS_setns, (long)fd, 0L));
}

/* The namespace above one's own user namespace is the host's. */
static const char *parent_namespace(const struct attack *a)
{
	int fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return answer_path(-1);
	return answer(syscall(SYS_ioctl, (long)fd, (long)_IO(0xb7, 2)));
}

/* Own, the host's, or the sibling cell's? */
static const char *whose_namespace(const struct attack *a)
{
	unsigned long long ns;
	char key[32];

	if (namespace_inode(a->arg, &ns) < 0)
		return answer_path(-1);
	(void)snprintf(key, sizeof(key), "ns-%s", (const char *)a->arg);
	if (strtoull(world(key), NULL, 10) == ns)
		return "host";
	(void)snprintf(key, sizeof(key), "sibling-ns-%s", (const char *)a->arg);
	return strtoull(world(key), NULL, 10) == ns ? "sibling" : "own";
}

static const char *ptrace_child(const struct attack *a)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return answer(syscall(SYS_ptrace, (long)PTRACE_SEIZE, (long)pid, 0L, 0L));
}

#ifdef __x86_64__
static int next_stop(pid_t pid, int request)
{
	int status;

	if (syscall(SYS_ptrace, (long)request, (long)pid, 0L, 0L) < 0 ||
	    waitpid(pid, &status, __WALL) < 0)
		return -1;
	return WIFSTOPPED(status) ? 0 : -1;
}

/* A debugger replaces a harmless call by a forbidden one after the filter has seen the first. */
static const char *ptrace_swap(const struct attack *a)
{
	struct user_regs_struct regs;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		for (;;)
			(void)syscall(SYS_getpid);
	if (syscall(SYS_ptrace, (long)PTRACE_SEIZE, (long)pid, 0L, (long)PTRACE_O_TRACESYSGOOD) < 0)
		return answer_errno(errno);
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, &status, __WALL) < 0 ||
	    next_stop(pid, PTRACE_SYSCALL) < 0 || ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return "unexpected";
	regs.orig_rax = SYS_unshare;
	regs.rdi = CLONE_NEWUSER;
	if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 || next_stop(pid, PTRACE_SYSCALL) < 0 ||
	    ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return "unexpected";
	return (long)regs.rax == 0 ? "done" : answer_errno((int)-(long)regs.rax);
}
#endif

/* The driver's victim sleeps on the host, as the very user that runs cordon. */
static const char *kill_victim(const struct attack *a)
{
	return answer(kill((pid_t)world_num("victim"), (int)a->num));
}

static const char *kill_victim_group(const struct attack *a)
{
	return answer(kill(-(pid_t)world_num("victim"), (int)a->num));
}

static const char *victim_call(const struct attack *a)
{
	char here[16];
	struct iovec iov = { here, sizeof(here) }, there = { (void *)0x1000, sizeof(here) };
	struct rlimit lim;
	unsigned long mask = 1;
	long pid = world_num("victim");

	switch (a->num) {
	case SYS_pidfd_open:
		return answer(syscall(SYS_pidfd_open, pid, 0L));
	case SYS_tgkill:
		return answer(syscall(SYS_tgkill, pid, pid, (long)SIGCONT));
	case SYS_process_vm_readv:
		return answer(syscall(SYS_process_vm_readv, pid, &iov, 1L, &there, 1L, 0L));
	case SYS_prlimit64:
		return answer(syscall(SYS_prlimit64, pid, (long)RLIMIT_CORE, NULL, &lim));
	case SYS_sched_setaffinity:
		return answer(syscall(SYS_sched_setaffinity, pid, sizeof(mask), &mask));
	case SYS_setpriority:
		return answer(syscall(SYS_setpriority, (long)PRIO_PROCESS, pid, 19L));
	case SYS_ptrace:
		return answer(syscall(SYS_ptrace, (long)PTRACE_SEIZE, pid, 0L, 0L));
	default:
		return "unexpected";
	}
}

/* Signals to a foreign process through the owner of a descriptor. */
static const char *own_by_victim(const struct attack *a)
{
	int fds[2];

	if (pipe(fds) < 0)
		return answer_errno(errno);
	return answer(fcntl(fds[0], F_SETOWN, (int)world_num("victim")));
}

static const char *read_victim(const struct attack *a)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%ld/%s", world_num("victim"),
		       (const char *)a->arg);
	return answer_read(path);
}

/* Claims to be another process or user in a message's credentials. */
static const char *forge_credentials(const struct attack *a)
{
	struct ucred cred = { getpid(), getuid(), getgid() };
	char byte = 'x', control[CMSG_SPACE(sizeof(cred))];
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
	struct cmsghdr *c;
	int fds[2];

	if (a->num == 0)
		cred.pid = 1;
	else
		cred.uid = (uid_t)a->num;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) < 0)
		return answer_errno(errno);
	memset(control, 0, sizeof(control));
	msg.msg_controllen = sizeof(control);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_CREDENTIALS;
	c->cmsg_len = CMSG_LEN(sizeof(cred));
	memcpy(CMSG_DATA(c), &cred, sizeof(cred));
	return answer(sendmsg(fds[0], &msg, 0));
}

static const char *who(const struct attack *a)
{
	return answer_text("%u:%u", getuid(), getgid());
}

static const char *become(const struct attack *a)
{
	return answer(syscall(SYS_setuid, a->num));
}

static const char *join_group(const struct attack *a)
{
	gid_t group = (gid_t)a->num;

	return answer(syscall(SYS_setgroups, 1L, &group));
}

/* What root of a cell may hold; everything beyond is a hole. */
#define ROOT_CAPS 0xa00405fbULL

static const char *capability_set(const struct attack *a)
{
	unsigned long long mask = status_mask(a->arg);

	if (mask == 0)
		return "none";
	return (mask & ~ROOT_CAPS) == 0 ? "within" : answer_text("beyond:%llx", mask & ~ROOT_CAPS);
}

static const char *raise_capability(const struct attack *a)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return answer_errno(errno);
	data[0].permitted |= 1U << a->num;
	data[0].effective |= 1U << a->num;
	return answer(syscall(SYS_capset, &head, data));
}

static const char *ambient_capability(const struct attack *a)
{
	return answer(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, (unsigned long)a->num, 0, 0));
}

static const char *no_new_privileges(const struct attack *a)
{
	return answer_text("%d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

/* sudo is how a user becomes root inside; in the locked profile it must not be. */
static const char *use_sudo(const struct attack *a)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		(void)dup2(null, 1);
		(void)dup2(null, 2);
		(void)execl("/usr/bin/sudo", "sudo", "-n", "/probe/probe", "--whoami",
			    (char *)NULL);
		_exit(20);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return answer_errno(errno);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 10)
		return "root";
	return WIFEXITED(status) && WEXITSTATUS(status) == 20 ? "absent" : "refused";
}

/* A process that kills all it can reach reaches its cell and nothing else. */
static const char *kill_everything(const struct attack *a)
{
	return answer(kill(-1, SIGKILL));
}

#define NO_SUCH "ESRCH"
#define DEBUG_VICTIM "S:ESRCH L:EPERM"
#define NS_ROW(id, name) \
	ROW(id, "C", "own " name " namespace", whose_namespace, "own", NULL, name, 0)

/* clang-format off */
static const struct attack rows[] = {
ROW("unshare-user", "B", "new user namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWUSER),
ROW("unshare-mount", "B", "new mount namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWNS),
ROW("unshare-net", "B", "new network namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWNET),
ROW("unshare-pid", "B", "new pid namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWPID),
ROW("unshare-ipc", "B", "new ipc namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWIPC),
ROW("unshare-uts", "B", "new uts namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWUTS),
ROW("unshare-cgroup", "B", "new cgroup namespace",
	do_unshare, REFUSED, "done", NULL, CLONE_NEWCGROUP),
ROW("unshare-time", "B", "new time namespace", do_unshare, REFUSED, "done", NULL, CLONE_NEWTIME),
ROW("unshare-all", "B", "user, network and mount namespace at once",
	do_unshare, REFUSED, "done", NULL, CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS),
ROW("unshare-files", "B", "unshare of the file table, which is legal",
	do_unshare, "done", "done", NULL, CLONE_FILES),
ROW("clone-user", "B", "clone into a new user namespace",
	do_clone, REFUSED, "done", NULL, CLONE_NEWUSER),
ROW("clone-net", "B", "clone into a new network namespace",
	do_clone, REFUSED, "done", NULL, CLONE_NEWNET),
ROW("clone-mount", "B", "clone into a new mount namespace",
	do_clone, REFUSED, "done", NULL, CLONE_NEWNS),
ROW("clone-high", "B", "clone with bits above 32 set",
	do_clone, REFUSED, NULL, NULL, CLONE_NEWUSER | 1L << 40),
ROW("clone3-user", "B", "clone3 into a new user namespace",
	do_clone3, UNKNOWN, "done", NULL, CLONE_NEWUSER),
ROW("clone3-all", "B", "clone3 into every namespace",
	do_clone3, UNKNOWN, "done", NULL,
	CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID),
ROW("setns-user", "B", "setns to own user namespace", setns_self, REFUSED, "EINVAL", "user", 0),
ROW("setns-mount", "B", "setns to own mount namespace", setns_self, REFUSED, "done", "mnt", 0),
ROW("setns-net", "B", "setns to own network namespace", setns_self, REFUSED, "done", "net", 0),
ROW("setns-pid", "B", "setns to own pid namespace", setns_self, REFUSED, "done", "pid", 0),
ROW("parent-namespace", "B", "a descriptor of the host's user namespace",
	parent_namespace, REFUSED, NULL, NULL, 0),
NS_ROW("ns-user", "user"), NS_ROW("ns-mnt",
	"mnt"), NS_ROW("ns-pid", "pid"), NS_ROW("ns-net", "net"),
NS_ROW("ns-ipc", "ipc"), NS_ROW("ns-uts",
	"uts"), NS_ROW("ns-cgroup", "cgroup"), NS_ROW("ns-time", "time"),
ROW("ptrace-child", "B", "debug one's own child, legal in standard",
	ptrace_child, "S:done L:EPERM", "done", NULL, 0),
#ifdef __x86_64__
ROW("ptrace-swap", "B", "a debugger swaps the call behind the filter",
	ptrace_swap, REFUSED, "done", NULL, 0),
#endif
ROW("victim-kill", "C", "kill a process of the host", kill_victim, NO_SUCH, NULL, NULL, SIGKILL),
ROW("victim-cont", "C", "signal a process of the host",
	kill_victim, NO_SUCH, "done", NULL, SIGCONT),
ROW("victim-group", "C", "signal a process group of the host",
	kill_victim_group, NO_SUCH, "done", NULL, SIGCONT),
ROW("victim-tgkill", "C", "signal a thread of the host",
	victim_call, NO_SUCH, "done", NULL, SYS_tgkill),
ROW("victim-pidfd", "C", "pidfd_open a process of the host",
	victim_call, NO_SUCH, "done", NULL, SYS_pidfd_open),
ROW("victim-vm", "C", "process_vm_readv of a process of the host",
	victim_call, DEBUG_VICTIM, "EFAULT", NULL, SYS_process_vm_readv),
ROW("victim-limits", "C", "limits of a process of the host",
	victim_call, NO_SUCH, "done", NULL, SYS_prlimit64),
ROW("victim-affinity", "C", "processor of a process of the host",
	victim_call, NO_SUCH, "done", NULL, SYS_sched_setaffinity),
ROW("victim-nice", "C", "priority of a process of the host",
	victim_call, NO_SUCH, "done", NULL, SYS_setpriority),
ROW("victim-ptrace", "C", "debug a process of the host",
	victim_call, DEBUG_VICTIM, "done", NULL, SYS_ptrace),
ROW("victim-owner", "C", "signals by descriptor owner", own_by_victim, NO_SUCH, "done", NULL, 0),
ROW("victim-status", "C", "/proc of a process of the host",
	read_victim, "hidden", "done", "status", 0),
ROW("victim-environ", "C", "environment of a process of the host",
	read_victim, "hidden", "done", "environ", 0),
ROW("victim-root", "C", "root folder of a process of the host",
	read_victim, "hidden", "done", "root/", 0),
ROW("forge-pid", "C", "message credentials that name PID 1",
	forge_credentials, REFUSED, "done", NULL, 0),
ROW("forge-uid", "C", "message credentials that name another user",
	forge_credentials, "1:EINVAL Sr:done *:EPERM", "done", NULL, 1234),
ROW("who", "A", "the user the cell was asked to run as", who, "r:0:0 u:1000:1000", NULL, NULL, 0),
ROW("setuid-root", "B", "setuid(0)", become, "Sr:done Su1:EINVAL *:EPERM", NULL, NULL, 0),
ROW("setuid-other", "B", "setuid to another user of the cell",
	become, "S1:EINVAL Sr:done *:EPERM", NULL, NULL, 1234),
ROW("setuid-range", "B", "setuid to a user outside of the range",
	become, "S:EINVAL L:EPERM", NULL, NULL, 70000),
ROW("setgroups", "B", "join another group",
	join_group, "1:EPERM Sr:done *:EPERM", NULL, NULL, 1234),
ROW("caps-effective", "B", "effective capabilities",
	capability_set, "Sr:within *:none", NULL, "CapEff", 0),
ROW("caps-permitted", "B", "permitted capabilities",
	capability_set, "Sr:within *:none", NULL, "CapPrm", 0),
ROW("caps-bounding", "B", "bounding set", capability_set, "S:within L:none", NULL, "CapBnd", 0),
ROW("caps-inheritable", "B", "inheritable capabilities", capability_set, "none", NULL, "CapInh", 0),
ROW("caps-ambient", "B", "ambient capabilities", capability_set, "none", NULL, "CapAmb", 0),
ROW("raise-sys-admin", "B", "capset CAP_SYS_ADMIN",
	raise_capability, REFUSED, NULL, NULL, CAP_SYS_ADMIN),
ROW("raise-net-admin", "B", "capset CAP_NET_ADMIN",
	raise_capability, REFUSED, NULL, NULL, CAP_NET_ADMIN),
ROW("raise-sys-ptrace", "B", "capset CAP_SYS_PTRACE",
	raise_capability, REFUSED, NULL, NULL, CAP_SYS_PTRACE),
ROW("ambient-sys-admin", "B", "ambient CAP_SYS_ADMIN",
	ambient_capability, REFUSED, NULL, NULL, CAP_SYS_ADMIN),
ROW("no-new-privs", "B", "no_new_privs in the locked profile",
	no_new_privileges, "S:0 L:1", NULL, NULL, 0),
ROW("sudo", "B", "become root by sudo",
	use_sudo, "SF:root SrM:root S:refused L:refused", NULL, NULL, 0),
ROW_ALONE("kill-everything", "C", "kill(-1), which ends the cell and no more",
	kill_everything, "*:cell:137", NULL, 0),
};
/* clang-format on */

const struct table process_table = TABLE(rows);
