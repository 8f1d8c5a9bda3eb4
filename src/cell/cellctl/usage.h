/* usage.h - reads the resource use of a cell from the files of its cgroup, which every user may
 * read. Keeps no descriptors open. Called through cell_ops.h. */
#pragma once

#include "cell/cellctl/cgroups.h"

struct usage {
	uint64_t cpu_us;
	uint64_t memory_bytes, memory_peak_bytes;
	uint64_t pids, pids_peak;
	uint64_t oom_kills, pids_refused;
}; /* 0: none, or not known on this machine */

/* Each number is in a file of its own, and opening files costs the most. USAGE_SHOWN: only the
 * numbers always sampled: cpu_us, memory_bytes, memory_peak_bytes and pids. USAGE_KEPT: the numbers
 * kept of an ended session, those without pids. USAGE_LIMITS: only the counters of hit limits,
 * oom_kills and pids_refused. */
enum usage_detail { USAGE_SHOWN, USAGE_ALL, USAGE_KEPT, USAGE_LIMITS };

/* Numbers that cannot be read are 0. Works until DESTROY removes the cell's cgroup. */
void usage_read(const struct cgroups *c, const char *id, enum usage_detail detail,
		struct usage *ret);

/* The number behind `word` at the start of a line ("max 3"), 0 if there is none. word "": the
 * number at the start of the text. Pure. */
uint64_t usage_field(const char *text, const char *word);
