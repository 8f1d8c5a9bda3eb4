/* rows.h - the table of limits.c: how each program is run, and what must come of it. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#define KIB (1LL << 10)
#define MIB (1LL << 20)
#define ANY LLONG_MAX

struct bound {
	const char *field;
	long long least, most;
};

struct row {
	const char *name;
	const char *options; /* of cordon run, separated by blanks */
	const char *verb;    /* of hog, with its arguments */
	int exit;
	const char *limit; /* the values "limit" may have, separated by '|' */
	struct bound bounds[3];
};

/* clang-format off */
static const struct row rows[] = {
	/* nothing is hit, nothing is reported */
	{ "success", "", "exit 0", 0, "null", { { "signal", 0, 0 } } },
	{ "failure", "", "exit 7", 7, "null", { { "signal", 0, 0 } } },
	{ "death by signal", "", "signal 15", 143, "null", { { "signal", 15, 15 } } },
	{ "death by SIGKILL is not out of memory", "", "signal 9", 137, "null", { { "signal", 9, 9 } } },
	{ "exit code 124 is not a timeout", "--timeout 30s", "exit 124", 124, "null", { { 0 } } },
	{ "memory below the limit", "--memory 64M --disk 16M", "touch 24", 0, "null",
	  { { "memory_peak_bytes", 24 * MIB, 64 * MIB } } },
	{ "output up to the limit", "--output-limit 64K", "print 65536", 0, "null",
	  { { "stdout.bytes", 64 * KIB, 64 * KIB }, { "output_bytes", 64 * KIB, 64 * KIB } } },
	{ "a process left behind does not hold the run", "--timeout 20s", "orphan", 0, "null",
	  { { "wall_ms", 0, 15000 } } },

	{ "memory", "--memory 64M --disk 16M", "memory", 137, "memory",
	  { { "memory_peak_bytes", 48 * MIB, 64 * MIB } } },
	{ "memory, locked", "--memory 64M --disk 16M --profile locked", "memory", 137, "memory",
	  { { "memory_peak_bytes", 48 * MIB, 64 * MIB } } },
	{ "memory of a child, the command lives", "--memory 64M --disk 16M", "memory-child", 3,
	  "memory", { { "memory_peak_bytes", 48 * MIB, 64 * MIB } } },

	{ "processes", "--pids 32", "fork", 4, "pids",
	  { { "pids_peak", 32, 32 }, { "stdout.number", 20, 31 } } },
	{ "processes, locked", "--pids 32 --profile locked", "fork", 4, "pids",
	  { { "pids_peak", 32, 32 }, { "stdout.number", 20, 31 } } },
	{ "threads", "--pids 32", "threads", 7, "pids",
	  { { "pids_peak", 32, 32 }, { "stdout.number", 20, 31 } } },
	{ "fork bomb", "--pids 64 --timeout 3s", "fork-bomb", 124, "timeout",
	  { { "pids_peak", 64, 64 }, { "wall_ms", 3000, 30000 } } },

	{ "disk, /", "--disk 16M --user root", "disk /", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	{ "disk, /usr", "--disk 16M --user root", "disk /usr", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	{ "disk, /tmp", "--disk 16M --user user", "disk /tmp", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	{ "disk, home", "--disk 16M --user user", "disk /home/user", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	{ "disk, /dev/shm", "--disk 16M --user user", "shm", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	{ "disk, one quota for all places", "--disk 16M --user root",
	  "disk /tmp /home/user /dev/shm /usr /", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	{ "disk, locked", "--disk 16M --profile locked --user user", "disk /tmp", 5, "disk",
	  { { "disk_bytes", 12 * MIB, 16 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },
	/* A disk that is freed at once may be missed by the samples. */
	{ "disk, deleted space is free again", "--disk 16M --user user", "disk-then-delete /tmp", 0,
	  "null|disk", { { "disk_bytes", 0, 4 * MIB }, { "stdout.number", 12 * MIB, 16 * MIB } } },

	{ "inodes, /", "--inodes 512 --user root", "inodes /", 6, "inodes",
	  { { "stdout.number", 256, 512 }, { "disk_bytes", 0, 4 * MIB } } },
	{ "inodes, /tmp", "--inodes 512 --user user", "inodes /tmp", 6, "inodes",
	  { { "stdout.number", 256, 512 }, { "disk_bytes", 0, 4 * MIB } } },
	{ "inodes, /dev/shm", "--inodes 512 --user user", "inodes /dev/shm", 6, "inodes",
	  { { "stdout.number", 256, 512 }, { "disk_bytes", 0, 4 * MIB } } },

	{ "output", "--output-limit 64K", "output", 141, "output",
	  { { "stdout.bytes", 64 * KIB, 64 * KIB }, { "output_bytes", 64 * KIB, ANY } } },
	{ "output, locked", "--output-limit 64K --profile locked", "output", 141, "output",
	  { { "stdout.bytes", 64 * KIB, 64 * KIB }, { "output_bytes", 64 * KIB, ANY } } },

	{ "time, busy", "--timeout 1s", "loop", 124, "timeout",
	  { { "wall_ms", 1000, 20000 }, { "cpu_ms", 100, 20000 } } },
	{ "time, asleep", "--timeout 1s", "sleep", 124, "timeout",
	  { { "wall_ms", 1000, 20000 }, { "cpu_ms", 0, 900 } } },
	{ "time, deaf to signals", "--timeout 1s", "stubborn", 124, "timeout",
	  { { "wall_ms", 1000, 20000 } } },
	{ "time, locked", "--timeout 1s --profile locked", "stubborn", 124, "timeout",
	  { { "wall_ms", 1000, 20000 } } },

	/* two busy processes: unlimited they would use up to two CPUs */
	{ "cpus", "--cpus 0.5", "cpu 500 2", 0, "null",
	  { { "cpu.percent", 5, 80 }, { "cpu_ms", 950, 3000 } } },

	{ "open files", "--nofile 64", "fds", 0, "null", { { "stdout.number", 64, 64 } } },
	{ "open files, as root", "--nofile 64 --user root", "fds", 0, "null",
	  { { "stdout.number", 64, 64 } } },
};
/* clang-format on */

#define ROWS (sizeof(rows) / sizeof(rows[0]))
