/* spawn_child.h - a program that is being started, and what its process does between fork and exec.
 * Filled in by spawn.c.
 *
 * The process shares the memory of PID 1 until it executes the program (spawn_shared.h), and PID 1
 * goes on beside it. So nothing here may write to memory other than its own stack: no errno, no
 * static variable, no allocation. Its memory cannot be read or written by programs of the same
 * user: PID 1 is not dumpable. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent_msg.h"
#include "err.h"
#include "spawn.h"
#include "users.h"

/* The last directory has programs that the template adds to those of /usr. */
#define SPAWN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cordon/bin"
#define SPAWN_EXTRA_ENV 13
#define SPAWN_SHORT_LIST 256

struct child_process {
	const struct agent_spawn *request;
	uid_t own_uid; /* of PID 1 */
	struct users_entry user;
	uint32_t groups[USERS_GROUPS_MAX];
	size_t ngroups;
	int stdio[SPAWN_STDIO]; /* the program's ends */
	int error_fd;
	bool tty;
	uint64_t mark;
	char **argv, **envp;
	bool on_heap; /* argv was allocated */
	char extra[SPAWN_EXTRA_ENV][320];
	char *short_list[SPAWN_SHORT_LIST]; /* long enough for most: PID 1 of most cells allocates
					       nothing */
};

/* Is it a built-in of a guest (spawn.h)? The request is the server's own then. */
bool spawn_child_is_guest(const struct child_process *c);

/* Executes the program, or writes a struct spawn_failure to error_fd and exits. */
void spawn_child_run(const struct child_process *c) NORETURN;
