/* spawn.h - starts one program in the cell: user, directory, environment, pipes or a PTY. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/wire/agent_msg.h"

#define SPAWN_STDIO 4 /* standard descriptors, and that of results */

/* How a start failed. The child writes this to its error pipe. */
struct spawn_failure {
	uint32_t stage; /* enum agent_stage */
	int32_t sys;
};

/* A program during its start. The caller owns the descriptors, -1 where there is none. */
struct spawn {
	pid_t pid;
	int error_fd; /* a struct spawn_failure, or end of file when the program runs */
	/* The server's ends: stdin, stdout, stderr, results. For a held PTY: its input and output
	 * pipes. For any other PTY: the master, alone. */
	int stdio[SPAWN_STDIO];
	/* A held PTY: the master, and PID 1's ends of the two pipes (pty_pump.h). */
	int master, output, input;
};

/* Fork a child that executes the program with this mark (tree_mark.h, 0: none). Whether exec
 * succeeds is known when error_fd is readable. */
int spawn_start(const struct agent_spawn *request, uint64_t mark, struct spawn *ret,
		struct spawn_failure *fail) MUST_USE;

/* Set once, by the boot code of a guest with a kernel of its own (guest_limits.c): the cgroup in
 * which programs start (-1: that of PID 1), and the first step of a new process, as root (NULL:
 * none). -1 with errno is a failure. */
extern int spawn_cgroup;
extern int (*spawn_on_child)(void);
/* Set there, too: built-ins that exist in such a guest only (guest_changes.c), and need descriptors
 * of PID 1. Their processes are in the cgroup of PID 1. NULL: there are none. */
struct spawn_guest {
	bool (*is_one)(const char *name);
	void (*run)(const char *name); /* in the child, does not return */
	void (*on_start)(const char *name, pid_t pid);
	void (*on_exit)(pid_t pid); /* for each ended process */
};
extern const struct spawn_guest *spawn_guest;

/* Set by guest_identity.c: all programs, and built-ins for clients, are of this user (0: of any)
 * and go through both functions: drop_rights() as root, filter() as the last step. -1 with errno is
 * a failure. In a cell of profile locked PID 1 has all of this from the keeper. */
struct spawn_lock {
	uid_t uid;
	gid_t gid;
	int (*drop_rights)(void);
	int (*filter)(void);
};
extern struct spawn_lock spawn_lock;
