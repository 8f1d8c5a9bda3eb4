/* proc_stat.h - reads what kill_tree.c needs to know about a process from /proc. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/own.h"

struct proc_stat {
	pid_t pid, parent, group, session;
	bool alive;	/* at least one thread runs. By its text alone: or may run */
	bool has_first; /* its first thread runs */
	int threads;	/* also those that have exited and that another process traces */
	uint64_t locks; /* hard limit, its mark (tree_mark.h). UINT64_MAX: none */
};

/* Parse the text of /proc/<pid>/stat: all members but locks. The process chooses the name in it,
 * which may contain anything. False if it is malformed. Pure. */
bool proc_stat_parse(const char *text, struct proc_stat *ret) MUST_USE;

/* Parse the text of /proc/<pid>/limits: locks. Pure. */
bool proc_stat_parse_limits(const char *text, uint64_t *ret) MUST_USE;

/* Read both files of one process and, if its first thread has exited, those of the others. False if
 * it has exited. */
bool proc_stat_read(int proc_fd, pid_t pid, struct proc_stat *ret) MUST_USE;

/* Call each(), if not NULL, for every process of the cell but PID 1, in ascending order of their
 * ids. Return how many there are, or -1. */
int proc_stat_each(int proc_fd, void (*each)(int proc_fd, pid_t pid, void *arg), void *arg);
