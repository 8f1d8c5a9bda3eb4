/* cgroups_private.h - what the files of cgroups_*.c and usage.c share: how the machine's tables are
 * read (cgroups_tables.c), and in what the two cgroup versions differ (cgroups_v1.c, cgroups_v2.c).
 */
#pragma once

#include "cgroups.h"

/* The two files that say where cgroups are, read once. */
struct cgroups_tables {
	char own[8192];	    /* /proc/self/cgroup: "4:memory:/a/b" */
	char mounts[65536]; /* /proc/self/mounts: "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0
			       0" */
};

int cgroups_read_tables(struct cgroups_tables *ret, struct err *e) MUST_USE;

/* "a,b,c" or "a b c" contains "b"? */
bool cgroups_list_has(const char *list, const char *word);

/* Copies the next line to ret and returns where the one after it begins; NULL at the end. */
const char *cgroups_next_line(const char *text, char *ret, size_t cap);

/* This process's own directory in the hierarchy with this controller ("" for v2). -1: none. */
int cgroups_own_path(const struct cgroups_tables *t, const char *controller, char *ret_path,
		     size_t cap) MUST_USE;

/* Where a hierarchy is mounted: the first of that type and, on v1, with that option. -1: none. */
int cgroups_mount_point(const struct cgroups_tables *t, const char *type, const char *option,
			char *ret_path, size_t cap) MUST_USE;

/* Opens a directory in which this process may make others; -1 if there is none. */
int cgroups_open_dir(const char *base, const char *below);

/* A number that the kernel counts for a cell: in which file of which directory it is. Some are not
 * in every kernel. */
struct cgroups_source {
	size_t offset; /* in struct usage */
	unsigned dir;
	const char *file, *word; /* word: what the number follows; "": the first of the file */
	unsigned divide;
	bool rare;     /* read only if all is wanted */
	bool or_first; /* without that directory, the first one has it: v1, cpu with cpuacct */
};

/* A file that limits all cells of a group together. */
struct cgroups_sum {
	unsigned bit; /* CELL_LIMIT_* */
	unsigned dir;
	const char *file;
};

/* What differs between the versions. */
struct cgroups_version {
	/* Fills dirs and limits; base is where the hierarchy with memory is mounted. */
	void (*find)(const struct cgroups_tables *t, const char *base, struct cgroups *ret);
	/* A directory of a group passes on what its cells need. */
	bool (*passes_on)(int dir, unsigned limits);
	const struct cgroups_source *sources;
	size_t nsources;
	const struct cgroups_sum *sums;
	size_t nsums;
};

extern const struct cgroups_version cgroups_v1, cgroups_v2;

/* NULL for version 0. */
const struct cgroups_version *cgroups_version(const struct cgroups *c);
