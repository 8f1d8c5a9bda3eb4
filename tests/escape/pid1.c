/* pid1.c - attacks on cordon-init, PID 1 of the cell. It holds the control channel, so nobody
 * inside may read it, steer it, stop it, or take its descriptors, not even root of the cell.
 *
 * No row has a control: outside of a cell PID 1 is the machine's own, and is left alone. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef PTRACE_SEIZE
#define PTRACE_SEIZE 0x4206
#endif

static const char *own_pid1(const struct attack *a)
{
	const char *foreign = foreign_pid1();

	return foreign ? foreign : "own";
}

static const char *read_arg(const struct attack *a)
{
	const char *foreign = foreign_pid1();

	return foreign ? foreign : answer_read(a->arg);
}

static const char *open_write(const struct attack *a)
{
	const char *foreign = foreign_pid1();

	return foreign ? foreign : answer_path(open(a->arg, O_WRONLY | O_CLOEXEC));
}

static const char *rewrite_map(const struct attack *a)
{
	const char *foreign = foreign_pid1();
	int fd;

	if (foreign)
		return foreign;
	fd = open(a->arg, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return answer_path(-1);
	return answer(write(fd, "0 0 1\n", 6));
}

static const char *open_follow(const struct attack *a)
{
	const char *foreign = foreign_pid1();

	return foreign ? foreign : answer_path(open(a->arg, O_PATH | O_CLOEXEC));
}

static const char *read_link(const struct attack *a)
{
	const char *foreign = foreign_pid1();
	char buf[512];
	long n;

	if (foreign)
		return foreign;
	n = readlink(a->arg, buf, sizeof(buf));
	return n < 0 && errno == ENOENT ? "hidden" : answer(n);
}

static const char *secret_through(const struct attack *a)
{
	const char *foreign = foreign_pid1();
	char path[1024];

	if (foreign)
		return foreign;
	(void)snprintf(path, sizeof(path), "%s%s", (const char *)a->arg, world("secret"));
	return answer_read(path);
}

static const char *lower_oom_score(const struct attack *a)
{
	const char *foreign = foreign_pid1();
	int fd;

	if (foreign)
		return foreign;
	fd = open(a->arg, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return answer_path(-1);
	return answer(write(fd, "-1000", 5));
}

static char pid1_state(void)
{
	char buf[512];
	const char *p;

	if (slurp("/proc/1/stat", buf, sizeof(buf)) < 0)
		return '?';
	p = strrchr(buf, ')');
	return p && p[1] == ' ' ? p[2] : '?';
}

/* To be allowed to send is not yet an effect: PID 1 has no handler, the kernel drops the signal. */
static const char *signal_pid1(const struct attack *a)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	char state;

	if (foreign_pid1())
		return foreign_pid1();
	if (kill(1, (int)a->num) < 0)
		return answer_errno(errno);
	(void)nanosleep(&pause, NULL);
	state = pid1_state();
	if (state == 'T' || state == 't')
		return "stopped";
	return kill(1, 0) == 0 || errno == EPERM ? "ignored" : "gone";
}

static const char *ptrace_pid1(const struct attack *a)
{
	return answer(syscall(SYS_ptrace, a->num, 1L, 0L, 0L));
}

static const char *vm_pid1(const struct attack *a)
{
	char here[16] = { 0 };
	struct iovec local = { here, sizeof(here) };
	/* Any address: the permission is checked before the address is looked at. */
	struct iovec remote = { (void *)0x400000, sizeof(here) };

	return answer(syscall(a->num, 1L, &local, 1L, &remote, 1L, 0L));
}

static const char *steal_fd(const struct attack *a)
{
	long pidfd = syscall(SYS_pidfd_open, 1L, 0L);

	if (pidfd < 0)
		return answer_errno(errno);
	return answer(syscall(SYS_pidfd_getfd, pidfd, a->num, 0L));
}

static const char *setns_pid1(const struct attack *a)
{
	long pidfd = syscall(SYS_pidfd_open, 1L, 0L);

	if (pidfd < 0)
		return answer_errno(errno);
	return answer(syscall(SYS_setns, pidfd, a->num));
}

static const char *madvise_pid1(const struct attack *a)
{
	long pidfd = syscall(SYS_pidfd_open, 1L, 0L);
	struct iovec iov = { (void *)0x400000, 4096 };

	if (pidfd < 0)
		return answer_errno(errno);
	return answer(syscall(SYS_process_madvise, pidfd, &iov, 1L, 20L, 0L));
}

/* Taking a limit away from PID 1: raising its hard limit needs a right nobody in a cell has. */
static const char *prlimit_pid1(const struct attack *a)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };

	return answer(syscall(SYS_prlimit64, 1L, (long)RLIMIT_NOFILE, &lim, NULL));
}

static const char *kcmp_pid1(const struct attack *a)
{
	return answer(syscall(SYS_kcmp, (long)getpid(), 1L, 0L, 0L, 0L));
}

static const char *schedule_pid1(const struct attack *a)
{
	struct sched_param p = { .sched_priority = 1 };

	return answer(syscall(SYS_sched_setscheduler, 1L, (long)SCHED_FIFO, &p));
}

static const char *move_pages_pid1(const struct attack *a)
{
	void *page = (void *)0x400000;
	int node = 0, status = 0;

	return answer(syscall(SYS_move_pages, 1L, 1L, &page, &node, &status, 0L));
}

static const char *robust_list_pid1(const struct attack *a)
{
	void *head;
	size_t len;

	return answer(syscall(SYS_get_robust_list, 1L, &head, &len));
}

/* PID 1 belongs to root where there is one, else to the same user, and the kernel shields it. */
#define SIGNALLED "Su1:ignored Su:EPERM *:ignored"

/* clang-format off */
static const struct attack rows[] = {
ROW("pid1-own", "C", "/proc shows the cell's own pid namespace", own_pid1, "own", NULL, NULL, 0),
ROW("pid1-exe", "A", "where PID 1's program is", read_link, PID1_CLOSED, NULL, "/proc/1/exe", 0),
ROW("pid1-exe-write", "A", "overwrite PID 1's program by /proc/1/exe",
	open_write, PID1_CLOSED, NULL, "/proc/1/exe", 0),
ROW("pid1-exe-read", "A", "read PID 1's program by /proc/1/exe",
	read_arg, PID1_CLOSED, NULL, "/proc/1/exe", 0),
ROW("pid1-root", "A", "the secret through /proc/1/root",
	secret_through, PID1_CLOSED, NULL, "/proc/1/root", 0),
ROW("pid1-cwd", "A", "the secret through /proc/1/cwd",
	secret_through, PID1_CLOSED, NULL, "/proc/1/cwd", 0),
ROW("pid1-task-root", "A", "the secret through /proc/1/task/1/root",
	secret_through, PID1_CLOSED, NULL, "/proc/1/task/1/root", 0),
ROW("pid1-fd-0", "A", "open PID 1's descriptor 0",
	open_follow, PID1_CLOSED, NULL, "/proc/1/fd/0", 0),
ROW("pid1-fd-3", "A", "open PID 1's descriptor 3",
	open_follow, PID1_CLOSED, NULL, "/proc/1/fd/3", 0),
ROW("pid1-fd-link", "A", "name PID 1's descriptor 0",
	read_link, PID1_CLOSED, NULL, "/proc/1/fd/0", 0),
ROW("pid1-map-files", "A", "list PID 1's mapped files",
	read_arg, PID1_CLOSED, NULL, "/proc/1/map_files", 0),
ROW("pid1-environ", "A", "read PID 1's environment",
	read_arg, PID1_CLOSED, NULL, "/proc/1/environ", 0),
ROW("pid1-mem-read", "B", "read PID 1's memory", read_arg, PID1_CLOSED, NULL, "/proc/1/mem", 0),
ROW("pid1-mem-write", "B", "open PID 1's memory for writing",
	open_write, PID1_CLOSED, NULL, "/proc/1/mem", 0),
ROW("pid1-maps", "B", "read PID 1's memory map", read_arg, PID1_CLOSED, NULL, "/proc/1/maps", 0),
ROW("pid1-auxv", "B", "read PID 1's auxiliary vector",
	read_arg, PID1_CLOSED, NULL, "/proc/1/auxv", 0),
ROW("pid1-stack", "B", "read PID 1's kernel stack",
	read_arg, PID1_CLOSED, NULL, "/proc/1/stack", 0),
ROW("pid1-syscall", "B", "read PID 1's current system call",
	read_arg, "r:EPERM u:EACCES", NULL, "/proc/1/syscall", 0),
ROW("pid1-ns-mnt", "B", "open PID 1's mount namespace",
	open_follow, PID1_CLOSED, NULL, "/proc/1/ns/mnt", 0),
ROW("pid1-ns-user", "B", "open PID 1's user namespace",
	open_follow, PID1_CLOSED, NULL, "/proc/1/ns/user", 0),
ROW("pid1-ns-net", "B", "open PID 1's network namespace",
	open_follow, PID1_CLOSED, NULL, "/proc/1/ns/net", 0),
ROW("pid1-uid-map", "B", "write PID 1's uid_map",
	rewrite_map, "r:EPERM u:EACCES", NULL, "/proc/1/uid_map", 0),
ROW("pid1-oom-score", "C", "make PID 1 immune to memory pressure",
	lower_oom_score, "EACCES", NULL, "/proc/1/oom_score_adj", 0),
ROW("pid1-kill", "D", "SIGKILL to PID 1", signal_pid1, SIGNALLED, NULL, NULL, SIGKILL),
ROW("pid1-stop", "D", "SIGSTOP to PID 1", signal_pid1, SIGNALLED, NULL, NULL, SIGSTOP),
ROW("pid1-term", "D", "SIGTERM to PID 1", signal_pid1, SIGNALLED, NULL, NULL, SIGTERM),
ROW("pid1-segv", "D", "SIGSEGV to PID 1", signal_pid1, SIGNALLED, NULL, NULL, SIGSEGV),
ROW("pid1-attach", "B", "ptrace attach to PID 1", ptrace_pid1, REFUSED, NULL, NULL, PTRACE_ATTACH),
ROW("pid1-seize", "B", "ptrace seize PID 1", ptrace_pid1, REFUSED, NULL, NULL, PTRACE_SEIZE),
ROW("pid1-vm-read", "B", "process_vm_readv from PID 1",
	vm_pid1, REFUSED, NULL, NULL, SYS_process_vm_readv),
ROW("pid1-vm-write", "B", "process_vm_writev to PID 1",
	vm_pid1, REFUSED, NULL, NULL, SYS_process_vm_writev),
ROW("pid1-getfd-0", "B", "pidfd_getfd of PID 1's descriptor 0", steal_fd, REFUSED, NULL, NULL, 0),
ROW("pid1-getfd-3", "B", "pidfd_getfd of PID 1's descriptor 3", steal_fd, REFUSED, NULL, NULL, 3),
ROW("pid1-setns", "B", "setns to PID 1's namespaces by pidfd",
	setns_pid1, REFUSED, NULL, NULL, 0x00020000),
ROW("pid1-madvise", "B", "process_madvise on PID 1", madvise_pid1, REFUSED, NULL, NULL, 0),
ROW("pid1-prlimit", "D", "lift PID 1's limits", prlimit_pid1, REFUSED, NULL, NULL, 0),
ROW("pid1-kcmp", "B", "kcmp with PID 1", kcmp_pid1, REFUSED, NULL, NULL, 0),
ROW("pid1-realtime", "D", "real-time scheduling for PID 1", schedule_pid1, REFUSED, NULL, NULL, 0),
ROW("pid1-move-pages", "B", "move_pages of PID 1", move_pages_pid1, REFUSED, NULL, NULL, 0),
ROW("pid1-robust-list", "B", "get_robust_list of PID 1", robust_list_pid1, REFUSED, NULL, NULL, 0),
};
/* clang-format on */

const struct table pid1_table = TABLE(rows);
