/* cgroups_private.h - shared by cgroups*.c and usage.c: readers of the kernel's tables
 * (cgroups.c), and the table of what differs between the cgroup versions (cgroups_v1.c,
 * cgroups_v2.c). */
#pragma once

#include <stddef.h>

#include "cell/cellctl/cgroups.h"

/* The texts of two files: the cgroups of this process, and the mounted file systems. */
struct cgroups_tables {
	char own[8192];	    /* /proc/self/cgroup: "4:memory:/a/b" */
	char mounts[65536]; /* /proc/self/mounts: "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0
			       0" */
};

int cgroups_read_tables(struct cgroups_tables *ret, struct err *e) MUST_USE;

/* Is the word in a list such as "a,b,c" or "a b c"? */
bool cgroups_list_has(const char *list, const char *word);

/* Copy the next line to ret and return where the one after it begins. NULL at the end. */
const char *cgroups_next_line(const char *text, char *ret, size_t cap);

/* The path of this process's cgroup in the hierarchy with this controller ("" for v2). -1: none. */
int cgroups_own_path(const struct cgroups_tables *t, const char *controller, char *ret_path,
		     size_t cap) MUST_USE;

/* The mount point of a hierarchy: the first of that type and, on v1, with that option. -1: none. */
int cgroups_mount_point(const struct cgroups_tables *t, const char *type, const char *option,
			char *ret_path, size_t cap) MUST_USE;

/* Open base/below if this process may make directories in it. Else -1. */
int cgroups_open_dir(const char *base, const char *below);

/* Where a number of struct usage is: in which file of which directory. Not every kernel has all. */
struct cgroups_source {
	size_t offset; /* in struct usage */
	unsigned dir;
	const char *file, *word; /* see usage_field() */
	unsigned divide;
	bool rare;     /* read for USAGE_ALL and USAGE_LIMITS only */
	bool or_first; /* if that directory is -1, the first one has the file: v1, cpu with cpuacct
			*/
	bool if_none;  /* read only if no source before it had this number */
};

/* A file that limits all cells of a group together. */
struct cgroups_sum {
	unsigned bit; /* CELL_LIMIT_* */
	unsigned dir;
	const char *file;
};

/* An entry of struct keeper_cgroups.files. */
#define CGROUPS_LIMIT(dir, name, member, ...)                                \
	{                                                                    \
		dir, offsetof(struct cell_limits, member), __VA_ARGS__, name \
	}
#define CGROUPS_QUOTA_US \
	100 /* of the default period, 100,000 us, for one thousandth of a processor */

/* The differences between the versions. */
struct cgroups_version {
	/* Fill dirs and limits. `base` is the mount point of the hierarchy with memory. */
	void (*find)(const struct cgroups_tables *t, const char *base, struct cgroups *ret);
	/* Let cells in a directory of a group have their controllers. False: not all of them. */
	bool (*passes_on)(int dir, unsigned limits);
	const struct cgroups_source *sources;
	size_t nsources;
	const struct cgroups_sum *sums;
	size_t nsums;
	struct keeper_cgroups keeper; /* how the keeper limits a cell and puts it into its cgroup */
};

extern const struct cgroups_version cgroups_v1, cgroups_v2;

/* NULL for version 0. */
const struct cgroups_version *cgroups_version(const struct cgroups *c);
