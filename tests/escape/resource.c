/* resource.c - taking more than one's share. Limits come from the driver's own command line (keys
 * pids, nofile, disk, inodes, memory), so a row can tell the cell's limit from the machine's.
 *
 * Without root and without a delegated control group there is nothing that counts the processes or
 * the memory of a cell; those rows say "unbounded" is possible in the rootless modes. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *fork_bomb(const struct attack *a)
{
	long limit = world_num("pids");

	for (long i = 0; i < limit + 64; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return answer_errno(errno);
		if (pid == 0)
			for (;;)
				(void)pause();
	}
	return "unbounded";
}

static void *sleep_for_ever(void *arg)
{
	for (;;)
		(void)pause();
	return arg;
}

static const char *thread_bomb(const struct attack *a)
{
	long limit = world_num("pids");
	pthread_attr_t attr;
	pthread_t t;

	if (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, 65536) != 0)
		return "unexpected";
	for (long i = 0; i < limit + 64; i++) {
		int err = pthread_create(&t, &attr, sleep_for_ever, NULL);

		if (err != 0)
			return answer_errno(err);
	}
	return "unbounded";
}

static const char *open_many(const struct attack *a)
{
	long limit = world_num("nofile");

	for (long i = 0; i < limit + 16; i++)
		if (open(a->arg, O_RDWR | O_NOCTTY | O_CLOEXEC) < 0)
			return answer_errno(errno);
	return "unbounded";
}

/* Terminals are counted for the whole machine, so one cell must not be able to take them all:
 * several processes together pass the limit of each. */
/* Processes of the bombs before this row may still be dying. */
static pid_t fork_patiently(void)
{
	pid_t pid = fork();

	for (int i = 0; i < 100 && pid < 0 && errno == EAGAIN; i++) {
		(void)poll(NULL, 0, 50);
		pid = fork();
	}
	return pid;
}

static const char *many_terminals(const struct attack *a)
{
	int fds[2];
	char c = 0;

	if (pipe(fds) < 0)
		return answer_errno(errno);
	for (int i = 0; i < 12; i++) {
		pid_t pid = fork_patiently();

		if (pid < 0)
			return answer_errno(errno);
		if (pid > 0) {
			if (read(fds[0], &c, 1) != 1)
				return "unexpected";
			if (c != 0 && c != EMFILE)
				return answer_errno(c);
			continue;
		}
		for (int n = 0; n < 100; n++)
			if (open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) < 0) {
				c = (char)errno;
				break;
			}
		if (write(fds[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	return "unbounded";
}

static const char *inotify_instances(const struct attack *a)
{
	for (int i = 0; i < 4096; i++)
		if (inotify_init1(IN_CLOEXEC) < 0)
			return answer_errno(errno);
	return "unbounded";
}

static const char *fill(const char *path, long long bytes)
{
	static char block[65536];
	const char *got = "unbounded";
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return answer_errno(errno);
	memset(block, 'x', sizeof(block));
	for (long long n = 0; n < bytes; n += (long long)sizeof(block))
		if (write(fd, block, sizeof(block)) < 0) {
			got = answer_errno(errno);
			break;
		}
	(void)unlink(path);
	return got;
}

static const char *fill_disk(const struct attack *a)
{
	return fill(a->arg, world_num("disk") * 2);
}

static const char *many_files(const struct attack *a)
{
	long limit = world_num("inodes");
	const char *got = "unbounded";
	char path[128];
	long i;

	for (i = 0; i < limit + 64; i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s/escape-inode-%ld", (const char *)a->arg, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			got = answer_errno(errno);
			break;
		}
		(void)close(fd);
	}
	while (i-- > 0) {
		(void)snprintf(path, sizeof(path), "%s/escape-inode-%ld", (const char *)a->arg, i);
		(void)unlink(path);
	}
	return got;
}

/* A hole costs nothing and is legal; blocks that are promised must be there. */
static const char *huge_file(const struct attack *a)
{
	const char *path = "/tmp/escape-huge";
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	const char *got;

	if (fd < 0)
		return answer_errno(errno);
	got = answer(a->num ? fallocate(fd, 0, 0, 1LL << 40) : ftruncate(fd, 1LL << 40));
	(void)unlink(path);
	return got;
}

static const char *raise_limit(const struct attack *a)
{
	struct rlimit lim;

	if (syscall(SYS_prlimit64, 0, a->num, NULL, &lim) < 0)
		return answer_errno(errno);
	if (lim.rlim_max == RLIM_INFINITY)
		return "unlimited";
	lim.rlim_cur = lim.rlim_max = lim.rlim_max + 1;
	return answer(syscall(SYS_prlimit64, 0L, a->num, &lim, NULL));
}

static const char *core_limit(const struct attack *a)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_CORE, &lim) < 0)
		return answer_errno(errno);
	return answer_text("%llu", (unsigned long long)lim.rlim_max);
}

static const char *real_time(const struct attack *a)
{
	struct sched_param p = { .sched_priority = 1 };

	return answer(syscall(SYS_sched_setscheduler, 0L, a->num, &p));
}

static const char *deadline(const struct attack *a)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = 48,
		   .policy = 6,
		   .runtime = 1000000,
		   .deadline = 10000000,
		   .period = 10000000 };

	return answer(syscall(SYS_sched_setattr, 0L, &attr, 0L));
}

static const char *priority(const struct attack *a)
{
	return answer(setpriority(PRIO_PROCESS, 0, (int)a->num));
}

static const char *io_real_time(const struct attack *a)
{
	return answer(syscall(SYS_ioprio_set, 1L, 0L, (1L << 13) | 0));
}

static const char *affinity(const struct attack *a)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return answer_errno(errno);
	return answer(sched_setaffinity(0, sizeof(set), &set));
}

static const char *lower_oom_score(const struct attack *a)
{
	int fd = open(a->arg, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return answer_path(-1);
	return answer(write(fd, "-1000", 5));
}

static const char *huge_shm(const struct attack *a)
{
	int id = shmget(IPC_PRIVATE, 2 << 20, IPC_CREAT | SHM_HUGETLB | 0600);

	if (id < 0)
		return answer_errno(errno);
	(void)shmctl(id, IPC_RMID, NULL);
	return "done";
}

static const char *huge_pages(const struct attack *a)
{
	void *p = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	return p == MAP_FAILED ? answer_errno(errno) : "done";
}

/* Memory that cannot be reclaimed: more than the cell may have would hurt the machine. */
static const char *lock_memory(const struct attack *a)
{
	size_t len = 64 << 20;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? answer_errno(errno) : answer(mlock(p, len));
}

static const char *big_pipe(const struct attack *a)
{
	int fds[2];

	if (pipe(fds) < 0)
		return answer_errno(errno);
	return answer(fcntl(fds[1], F_SETPIPE_SZ, 64 << 20));
}

static const char *touch(char *p, long long len)
{
	for (long long i = 0; i < len; i += 4096)
		p[i] = 1;
	return "unbounded";
}

static const char *memory_hog(const struct attack *a)
{
	long long len = world_num("memory") * 2;
	char *p =
		mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? answer_errno(errno) : touch(p, len);
}

/* Memory in a file that lies in no file system anybody sized. */
static const char *memfd_hog(const struct attack *a)
{
	long long len = world_num("memory") * 2;
	long fd = syscall(SYS_memfd_create, "escape", 0L);
	char *p;

	if (fd < 0 || ftruncate((int)fd, len) < 0)
		return answer_errno(errno);
	p = mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	return p == MAP_FAILED ? answer_errno(errno) : touch(p, len);
}

static const char *sysv_hog(const struct attack *a)
{
	long long len = world_num("memory") * 2;
	int id = shmget(IPC_PRIVATE, (size_t)len, IPC_CREAT | 0600);
	char *p;

	if (id < 0)
		return answer_errno(errno);
	p = shmat(id, NULL, 0);
	(void)shmctl(id, IPC_RMID, NULL);
	return p == (void *)-1 ? answer_errno(errno) : touch(p, len);
}

static void spin_until(time_t second)
{
	struct timespec now;

	do
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec < second);
	_exit(0);
}

/* Two processes spin for a second and a half under a quota of half a processor (key cpus). */
static const char *cpu_hog(const struct attack *a)
{
	struct timespec start, now;
	struct rusage use;
	double cpu, wall;

	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < 2; i++)
		if (fork() == 0)
			spin_until(start.tv_sec + 2);
	(void)wait(NULL);
	(void)wait(NULL);
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	(void)getrusage(RUSAGE_CHILDREN, &use);
	cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	      (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
	wall = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
	return cpu <= wall * strtod(world("cpus"), NULL) * 1.5 ? "held" : "unbounded";
}

/* Held by the keeper's control groups; rootless only where they are delegated. */
#define COUNTED(answer) "F:" answer " *:" answer "|unbounded"
#define KILLED "SIGKILL|cell:137"

/* clang-format off */
static const struct attack rows[] = {
ROW("fork-bomb", "D", "more processes than allowed", fork_bomb, COUNTED("EAGAIN"), NULL, NULL, 0),
ROW("thread-bomb", "D", "more threads than allowed", thread_bomb, COUNTED("EAGAIN"), NULL, NULL, 0),
ROW("fd-exhaustion", "D", "more descriptors than allowed",
	open_many, "EMFILE", NULL, "/dev/null", 0),
ROW("pty-exhaustion", "D", "more terminals than a cell may",
	open_many, "ENOSPC", NULL, "/dev/ptmx", 0),
ROW("pty-machine", "D", "1200 terminals in one cell", many_terminals, "ENOSPC", NULL, NULL, 0),
ROW("inotify-instances", "D", "more watchers than allowed",
	inotify_instances, "EMFILE", NULL, NULL, 0),
ROW("disk-fill-tmp", "D", "fill /tmp beyond the quota",
	fill_disk, "ENOSPC", NULL, "/tmp/escape-fill", 0),
ROW("disk-fill-shm", "D", "fill /dev/shm beyond the quota",
	fill_disk, "ENOSPC", NULL, "/dev/shm/escape-fill", 0),
ROW("disk-fill-var", "D", "fill /var/tmp beyond the quota",
	fill_disk, "ENOSPC", NULL, "/var/tmp/escape-fill", 0),
ROW("inodes-tmp", "D", "more files than allowed in /tmp", many_files, "ENOSPC", NULL, "/tmp", 0),
ROW("inodes-shm", "D", "more files than allowed in /dev/shm",
	many_files, "ENOSPC", NULL, "/dev/shm", 0),
ROW("disk-hole", "D", "a file of one terabyte that is a hole", huge_file, "done", NULL, NULL, 0),
ROW("disk-promise", "D", "a file of one terabyte that is not", huge_file, "ENOSPC", NULL, NULL, 1),
ROW("raise-nofile", "D", "raise the limit of descriptors",
	raise_limit, "EPERM", NULL, NULL, RLIMIT_NOFILE),
ROW("raise-memlock", "D", "raise the limit of locked memory",
	raise_limit, "EPERM", NULL, NULL, RLIMIT_MEMLOCK),
ROW("raise-nice", "D", "raise the limit of priority",
	raise_limit, "EPERM", NULL, NULL, RLIMIT_NICE),
ROW("raise-rtprio", "D", "raise the limit of real-time priority",
	raise_limit, "EPERM", NULL, NULL, RLIMIT_RTPRIO),
ROW("raise-msgqueue", "D", "raise the limit of message queues",
	raise_limit, "EPERM", NULL, NULL, RLIMIT_MSGQUEUE),
ROW("core-limit", "D", "core files, and the host's handler for them",
	core_limit, "0", NULL, NULL, 0),
ROW("sched-fifo", "D", "SCHED_FIFO", real_time, REFUSED, "done|EPERM", NULL, SCHED_FIFO),
ROW("sched-rr", "D", "SCHED_RR", real_time, REFUSED, "done|EPERM", NULL, SCHED_RR),
ROW("sched-deadline", "D", "SCHED_DEADLINE", deadline, REFUSED, NULL, NULL, 0),
ROW("nice-up", "D", "priority -20", priority, "EACCES", "done", NULL, -20),
ROW("nice-down", "D", "priority 19, which is legal", priority, "done", "done", NULL, 19),
ROW("ioprio-rt", "D", "real-time I/O priority", io_real_time, REFUSED, "done", NULL, 0),
ROW("affinity", "D", "own processors, which is legal", affinity, "done", "done", NULL, 0),
ROW("oom-score", "C", "escape the out-of-memory killer",
	lower_oom_score, "EACCES", NULL, "/proc/self/oom_score_adj", 0),
ROW("hugetlb-shm", "D", "shared memory in huge pages", huge_shm, REFUSED, NULL, NULL, 0),
ROW("hugetlb-mmap", "D", "memory in huge pages", huge_pages, "ENOMEM", NULL, NULL, 0),
ROW("mlock", "D", "lock 64 MiB in memory", lock_memory, "ENOMEM", "done", NULL, 0),
ROW("pipe-size", "D", "a pipe of 64 MiB", big_pipe, REFUSED, NULL, NULL, 0),
ROW_ALONE("memory-hog", "D", "twice the memory allowed", memory_hog, COUNTED(KILLED), NULL, 0),
ROW_ALONE("memfd-hog", "D", "twice the memory allowed, in a memfd",
	memfd_hog, COUNTED(KILLED), NULL, 0),
ROW_ALONE("sysv-hog", "D", "twice the memory allowed, in System V shared memory",
	sysv_hog, COUNTED(KILLED), NULL, 0),
ROW_ALONE("cpu-hog", "D", "two spinners under a processor quota",
	cpu_hog, COUNTED("held"), NULL, 0),
};
/* clang-format on */

const struct table resource_table = TABLE(rows);
