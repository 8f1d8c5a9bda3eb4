/* serve_defaults.c - settings whose default follows the machine: 0 in the table, a number from here
 * on. Called once, by serve_prepare(), when the limit of descriptors is raised; cordond gets the
 * numbers.
 *
 * They are chosen for sessions that are idle most of the time. What sessions really use is bounded
 * elsewhere: each cell by its limits, all cells together by node_memory_limit and node_pids_limit,
 * and no session is made while the machine is short of memory. */
#include <sys/resource.h>
#include <unistd.h>

#include "nofile.h"
#include "serve.h"

#define SESSION_BYTES (4ULL << 20) /* an idle one takes less than a quarter of it */
#define SESSIONS_MIN 1000
#define MIB (1ULL << 20)
#define TENANT_SESSIONS_MIN 500
#define KEEPERS_MAX 4 /* with more of them, locks of the kernel are the limit */
#define EGRESS_MAX 4  /* each has caches of its own, and some MiB */

static uint64_t count_sessions(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t n = pages * (uint64_t)sysconf(_SC_PAGESIZE) / SESSION_BYTES;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && nofile_wanted(n) > files.rlim_cur)
		n = nofile_sessions(files.rlim_cur);
	return n > SESSIONS_MIN ? n : SESSIONS_MIN;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Files of a session are in its memory unless it has a disk, so the two grow together. What is
 * installed in sessions takes 100 to 400 MB (coding agents from npm) or 500 MB (numpy, scipy,
 * pandas, matplotlib); small machines keep what they had. These are limits, and nothing is
 * reserved by them. */
static void set_sizes(struct config *c)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	if (c->memory_default == 0) {
		memory = memory / 16 & ~(MIB - 1);
		memory = memory < 512 * MIB ? 512 * MIB : lesser(memory, 2048 * MIB);
		memory = lesser(memory, c->memory_max);
		if (c->node_max_memory > 0)
			memory = lesser(memory, c->node_max_memory);
		if (c->tenant_max_memory > 0)
			memory = lesser(memory, c->tenant_max_memory);
		c->memory_default = memory;
	}
	if (c->disk_default == 0) {
		c->disk_default =
			c->memory_default / 2 > 256 * MIB ? c->memory_default / 2 : 256 * MIB;
		c->disk_default = lesser(c->disk_default, c->disk_max);
		if (c->tenant_max_storage > 0)
			c->disk_default = lesser(c->disk_default, c->tenant_max_storage);
	}
}

/* One process for each `each` processors. */
static uint64_t by_processors(long each, uint64_t most)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN) / each;

	if (n < 1)
		return 1;
	return (uint64_t)n < most ? (uint64_t)n : most;
}

void serve_defaults(struct config *c)
{
	set_sizes(c);
	if (c->keepers == 0)
		c->keepers = by_processors(1, KEEPERS_MAX);
	if (c->egress_processes == 0) /* cells, cordond and keepers need processors, too */
		c->egress_processes = by_processors(2, EGRESS_MAX);
	if (c->node_max_sessions == 0)
		c->node_max_sessions = count_sessions();
	if (c->tenant_max_sessions == 0)
		c->tenant_max_sessions = c->node_max_sessions / 2 > TENANT_SESSIONS_MIN
						 ? c->node_max_sessions / 2
						 : TENANT_SESSIONS_MIN;
}
