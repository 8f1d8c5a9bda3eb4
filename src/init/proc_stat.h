/* proc_stat.h - what /proc says about one process, as far as killing needs it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "own.h"

struct proc_stat {
	pid_t pid, parent, group, session;
	bool alive;	/* any thread of it */
	uint64_t locks; /* hard limit of file locks; UINT64_MAX: none */
};

/* Reads the text of /proc/<pid>/stat: all fields but locks. The name in it is the process's own
 * choice and may contain anything. False if it is malformed. Pure. */
bool proc_stat_parse(const char *text, struct proc_stat *ret) MUST_USE;

/* Reads the text of /proc/<pid>/limits: locks. Pure. */
bool proc_stat_parse_limits(const char *text, uint64_t *ret) MUST_USE;

/* One process. False if it is gone. */
bool proc_stat_read(int proc_fd, pid_t pid, struct proc_stat *ret) MUST_USE;

/* Calls each() for every process in the cell but PID 1, in ascending order of their numbers; the
 * number is all that is known then. Returns how many, or -1. */
int proc_stat_each(int proc_fd, void (*each)(int proc_fd, pid_t pid, void *arg), void *arg);
