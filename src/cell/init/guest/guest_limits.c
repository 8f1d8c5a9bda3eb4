/* guest_limits.c - theory of operation
 *
 * Programs are started in the cgroup `cell` (spawn_cgroup), PID 1 stays outside, so that a program
 * that takes all memory or all process ids does not stop the agent. RESERVE of the machine's memory
 * is for PID 1 and the kernel. Programs do not get it even if their limit is the whole memory of
 * the machine. */
#include "cell/init/guest/guest_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "cell/init/pid1/programs.h"
#include "cell/init/pid1/spawn.h"
#include "cell/keeper/restrict.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/own.h"
#include "lib/wire/keeper_msg.h"

#define RESERVE (16ULL << 20)
#define FREEZE_MS 10000
#define OWN_FILES 65536 /* descriptors of PID 1: pipes, streams and connections of all programs */

/* Kills the largest program of a virtual machine whose programs do nothing but wait for memory. See
 * guest_boot.h.
 *
 * A kernel without swap kills for memory only when nothing can be given up any more. Pages of files
 * always can: programs that take nearly all memory leave no room for their own code, which the
 * kernel then reads from the disk again and again, for minutes, before it kills anything. So the
 * kernel tells the machine's first process when this has taken two of five seconds, and the process
 * makes the kernel kill: the same choice, and the same counter, as if memory had run out. */

/* All programs with work waited for memory, for two of five seconds. */
#define TRIGGER "full 2000000 5000000"

enum { PRESSURE_FD = 3, CGROUP_FD, KILL_FD, FDS_END }; /* of the first process */

/* For the process that boots: above the numbers with a meaning, of the first process and of
 * keeper_msg.h. */
static int own[FDS_END] = { -1, -1, -1, -1, -1, -1 };

static int guest_limits_pressure_open_above(int dir, const char *path, int flags)
{
	OWN_FD fd = openat(dir, path, flags | O_CLOEXEC);

	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, INIT_FD_GUEST + 1);
}

/* Called once, when the cgroup of programs has been made (a descriptor of its directory). */
static int guest_limits_pressure_init(int cgroup, struct err *e)
{
	own[PRESSURE_FD] =
		guest_limits_pressure_open_above(cgroup, "memory.pressure", O_RDWR | O_NONBLOCK);
	own[CGROUP_FD] = guest_limits_pressure_open_above(cgroup, ".", O_RDONLY | O_DIRECTORY);
	own[KILL_FD] = guest_limits_pressure_open_above(AT_FDCWD, "/proc/sysrq-trigger", O_WRONLY);
	for (int fd = PRESSURE_FD; fd < FDS_END; fd++)
		if (own[fd] < 0)
			return err_sys(e, "open what the pressure on memory needs");
	if (write(own[PRESSURE_FD], TRIGGER, sizeof(TRIGGER)) < 0)
		return err_sys(e, "watch the pressure on memory");
	return 0;
}

void guest_limits_pressure_leave(void)
{
	for (int fd = PRESSURE_FD; fd < FDS_END; fd++)
		fd_close(own[fd]);
}

static bool guest_limits_pressure_keep_own_fds(void)
{
	for (int fd = PRESSURE_FD; fd < FDS_END; fd++)
		if (dup3(own[fd], fd, O_CLOEXEC) < 0)
			return false;
	return kernel_close_range(FDS_END, ~0U) == 0;
}

static uint64_t guest_limits_pressure_read_number(const char *file)
{
	char text[32];
	struct err e;

	return io_read_file(CGROUP_FD, file, text, sizeof(text), &e) < 0 ? 0
									 : strtoull(text, NULL, 10);
}

/* The kernel tells up to half a second late: by then it may have killed, or a program ended. */
static bool guest_limits_pressure_is_full(void)
{
	uint64_t used = guest_limits_pressure_read_number("memory.current"),
		 most = guest_limits_pressure_read_number("memory.max");

	return used + most / 8 >= most;
}

void guest_limits_pressure_watch(pid_t agent)
{
	int end =
		guest_limits_pressure_keep_own_fds() ? (int)syscall(SYS_pidfd_open, agent, 0) : -1;
	struct pollfd waits[] = {
		{ .fd = end, .events = POLLIN },
		{ .fd = PRESSURE_FD, .events = POLLPRI },
	};

	while (end >= 0 && waits[0].revents == 0)
		if (poll(waits, COUNT(waits), -1) > 0 && (waits[1].revents & POLLPRI) &&
		    guest_limits_pressure_is_full())
			(void)!write(KILL_FD, "f", 1); /* the kernel's own choice */
}

static int cell = -1;	      /* /cgroup/cell */
static uint64_t program_caps; /* bounding set */
static uint64_t nofile_limit;
static struct limit_counts told; /* of a program that ended */

/* In the new process, as root: what PID 1 has and programs do not. A built-in is not executed, so
 * its capabilities are reduced here. */
static int on_child(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = {
		{ (uint32_t)program_caps, (uint32_t)program_caps, 0 },
		{ (uint32_t)(program_caps >> 32), (uint32_t)(program_caps >> 32), 0 },
	};
	struct err e;

	if (io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "0", &e) < 0 ||
	    restrict_rlimits(nofile_limit, &e) < 0)
		return -1;
	return (int)syscall(SYS_capset, &head, caps);
}

static int guest_limits_make_cgroup(struct err *e)
{
	if (mkdir("/cgroup", 0755) < 0 || mount("cgroup", "/cgroup", "cgroup2", 0, NULL) < 0 ||
	    mkdir("/cgroup/cell", 0755) < 0)
		return err_sys(e, "mount cgroups");
	if (io_write_file(AT_FDCWD, "/cgroup/cgroup.subtree_control", "+memory +pids", e) < 0)
		return -1;
	/* Above the numbers that a new process gives to its own: built-ins of the guest use it. */
	OWN_FD fd = open("/cgroup/cell", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cell = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, INIT_FD_DIAG + 1);
	return cell < 0 ? err_sys(e, "open the cgroup") : 0;
}

/* Programs get the capabilities of a cell's programs. PID 1 keeps its own, because it executes
 * nothing. */
static int guest_limits_reduce_rights(struct err *e)
{
	if (restrict_drop_caps(CELL_STANDARD, true, e) < 0)
		return -1;
	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			program_caps |= 1ULL << cap;
	return 0;
}

/* ---- counters */

/* The value behind a key, in a file of lines such as "oom_kill 3". */
static uint64_t guest_limits_read_counter(int dir, const char *file, const char *key)
{
	char text[4096];
	struct err e;
	const char *at;

	if (io_read_file(dir, file, text, sizeof(text), &e) < 0)
		return 0;
	at = strstr(text, key);
	return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10);
}

static void guest_limits_counts(struct limit_counts *ret)
{
	ret->killed = guest_limits_read_counter(cell, "memory.events", "oom_kill ");
	ret->refused = guest_limits_read_counter(cell, "pids.events", "max ");
}

static uint32_t guest_limits_flags(bool killed, bool refused)
{
	return (killed ? AGENT_HIT_MEMORY : 0U) | (refused ? AGENT_HIT_PIDS : 0U);
}

static uint64_t guest_limits_larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint32_t guest_limits_hit(const struct limit_counts *before, bool failed, bool more)
{
	struct limit_counts now, from = { guest_limits_larger(before->killed, told.killed),
					  guest_limits_larger(before->refused, told.refused) };
	bool killed, refused;

	guest_limits_counts(&now);
	if (!failed && more)
		return guest_limits_flags(now.killed > before->killed,
					  now.refused > before->refused);
	killed = now.killed > from.killed;
	refused = now.refused > from.refused;
	told.killed = more && killed ? from.killed + 1 : more ? from.killed : now.killed;
	told.refused = now.refused;
	return guest_limits_flags(killed, refused);
}

int guest_limits_init(struct err *e)
{
	const struct rlimit files = { OWN_FILES, OWN_FILES };

	nofile_limit = OWN_FILES;
	if (guest_limits_make_cgroup(e) < 0 || guest_limits_pressure_init(cell, e) < 0 ||
	    guest_limits_reduce_rights(e) < 0 ||
	    io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "-1000", e) < 0)
		return -1;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "rlimit nofile");
	spawn_cgroup = cell;
	spawn_on_child = on_child;
	programs_limits_hit = guest_limits_hit;
	programs_limit_counts = guest_limits_counts;
	return 0;
}

/* ---- for each HELLO */

static int guest_limits_set_limit(const char *file, uint64_t value)
{
	char text[24];
	struct err e;

	(void)snprintf(text, sizeof(text), value == 0 ? "max" : "%llu", (unsigned long long)value);
	return io_write_file(cell, file, text, &e) < 0 ? e.sys : 0;
}

/* The most that programs may have: all free memory, and their own. */
static uint64_t guest_limits_most_memory(void)
{
	uint64_t free_bytes =
		guest_limits_read_counter(AT_FDCWD, "/proc/meminfo", "MemAvailable:") * 1024;
	uint64_t used = guest_limits_read_counter(cell, "memory.current", "");

	return free_bytes + used > 2 * RESERVE ? free_bytes + used - RESERVE : RESERVE;
}

/* Those of the last HELLO, if they are the same, are not set again: see guest_root.c. */
int guest_limits_set(const struct guest_hello *h)
{
	static uint64_t set_memory, set_pids;
	static bool is_set;
	uint64_t memory = h->memory_bytes, most;
	int sys;

	if (cell < 0)
		return ENOTSUP;
	nofile_limit = h->nofile == 0 ? OWN_FILES : h->nofile;
	if (is_set && memory == set_memory && h->pids == set_pids)
		return 0;
	most = guest_limits_most_memory();
	sys = guest_limits_set_limit("memory.max", memory == 0 || memory > most ? most : memory);
	if (sys == 0)
		sys = guest_limits_set_limit("pids.max", h->pids);
	is_set = sys == 0;
	set_memory = memory;
	set_pids = h->pids;
	return sys;
}

/* ---- programs that stand still */

static bool held; /* in PID 1 */

int guest_limits_freeze(bool on, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if (!on && held)
		return 0; /* guest_limits_let_go() does */
	if (io_write_file(cell, "cgroup.freeze", on ? "1" : "0", e) < 0)
		return -1;
	for (unsigned ms = 0;
	     on && guest_limits_read_counter(cell, "cgroup.events", "frozen ") == 0; ms++) {
		if (ms == FREEZE_MS)
			return err_set(e, ERR_SYSTEM, "a program could not be stopped");
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

int guest_limits_hold(struct err *e)
{
	struct err ignored;

	if (cell < 0)
		return 0;
	if (guest_limits_freeze(true, e) == 0) {
		held = true;
		return 0;
	}
	IGNORED(guest_limits_freeze(false, &ignored), "the file is there, and takes a number");
	return -1;
}

void guest_limits_let_go(bool others)
{
	struct err e;

	if (!held)
		return;
	held = false;
	if (!others)
		IGNORED(guest_limits_freeze(false, &e), "the file is there, and takes a number");
}

bool guest_limits_are_unused(void)
{
	char text[128];
	struct err e;

	return cell >= 0 && io_read_file(cell, "cgroup.events", text, sizeof(text), &e) >= 0 &&
	       strstr(text, "populated 0") != NULL;
}
