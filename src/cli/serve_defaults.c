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
