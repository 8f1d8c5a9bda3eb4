/* usage.h - what a cell uses, as the kernel counts it in the cell's cgroup. Needs no privilege:
 * every user may read those files. No descriptors are held for a cell. Called through cell_ops.h.
 */
#pragma once

#include "cgroups.h"

struct usage {
	uint64_t cpu_us;
	uint64_t memory_bytes, memory_peak_bytes;
	uint64_t pids, pids_peak;
	uint64_t oom_kills, pids_refused;
}; /* 0: none, or not known on this machine */

/* Each figure is a file to open, which costs the most. USAGE_SHOWN: only what a session shows of
 * itself all the time: cpu_us, memory_bytes, memory_peak_bytes and pids. */
enum usage_detail { USAGE_SHOWN, USAGE_ALL };

/* Reads what there is; the rest is 0. Works until the cell's cgroup is removed by DESTROY. */
void usage_read(const struct cgroups *c, const char *id, enum usage_detail detail,
		struct usage *ret);

/* The number behind a word at the start of a line ("max 3"), 0 if there is none; word "" takes the
 * first number of the text. Pure. */
uint64_t usage_field(const char *text, const char *word);
