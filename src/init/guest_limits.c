/* guest_limits.c - theory of operation
 *
 * Programs are started in the cgroup `cell` (spawn_cgroup), PID 1 stays outside, so that a program
 * that takes all memory or all process ids does not stop the agent. All that is the machine's is
 * PID 1's and the kernel's: RESERVE of it is kept from programs even if the limit is the whole
 * memory of the machine. */
#include "guest_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest_pressure.h"
#include "io.h"
#include "keeper_msg.h"
#include "programs.h"
#include "restrict.h"
#include "spawn.h"

#define RESERVE (16ULL << 20)
#define FREEZE_MS 10000
#define OWN_FILES 65536 /* descriptors of PID 1: pipes, streams and connections of all programs */

static int cell = -1;	      /* /cgroup/cell */
static uint64_t program_caps; /* bounding set */
static uint64_t nofile_limit;
static struct {
	uint64_t killed, refused;
} seen;

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

static int make_cgroup(struct err *e)
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

/* Programs get the capabilities of a cell's programs; PID 1 keeps its own, because it executes
 * nothing. */
static int reduce_rights(struct err *e)
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
static uint64_t read_counter(int dir, const char *file, const char *key)
{
	char text[4096];
	struct err e;
	const char *at;

	if (io_read_file(dir, file, text, sizeof(text), &e) < 0)
		return 0;
	at = strstr(text, key);
	return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10);
}

static uint32_t limits_hit(bool more)
{
	uint64_t killed = read_counter(cell, "memory.events", "oom_kill ");
	uint64_t refused = read_counter(cell, "pids.events", "max ");
	uint32_t hit = (killed > seen.killed ? AGENT_HIT_MEMORY : 0U) |
		       (refused > seen.refused ? AGENT_HIT_PIDS : 0U);

	if (!more)
		seen.killed = killed;
	else if (killed > seen.killed)
		seen.killed++;
	seen.refused = refused;
	return hit;
}

int guest_limits_init(struct err *e)
{
	const struct rlimit files = { OWN_FILES, OWN_FILES };

	nofile_limit = OWN_FILES;
	if (make_cgroup(e) < 0 || guest_pressure_init(cell, e) < 0 || reduce_rights(e) < 0 ||
	    io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "-1000", e) < 0)
		return -1;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "rlimit nofile");
	spawn_cgroup = cell;
	spawn_on_child = on_child;
	programs_limits_hit = limits_hit;
	return 0;
}

/* ---- for each HELLO */

static int set_limit(const char *file, uint64_t value)
{
	char text[24];
	struct err e;

	(void)snprintf(text, sizeof(text), value == 0 ? "max" : "%llu", (unsigned long long)value);
	return io_write_file(cell, file, text, &e) < 0 ? e.sys : 0;
}

/* What programs may have at most: all that is free, and what they have already. */
static uint64_t most_memory(void)
{
	uint64_t free_bytes = read_counter(AT_FDCWD, "/proc/meminfo", "MemAvailable:") * 1024;
	uint64_t used = read_counter(cell, "memory.current", "");

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
	most = most_memory();
	sys = set_limit("memory.max", memory == 0 || memory > most ? most : memory);
	if (sys == 0)
		sys = set_limit("pids.max", h->pids);
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
	for (unsigned ms = 0; on && read_counter(cell, "cgroup.events", "frozen ") == 0; ms++) {
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
