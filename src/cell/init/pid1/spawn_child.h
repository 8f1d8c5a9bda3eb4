/* spawn_child.h - a program during its start, and the steps of its process between fork and exec.
 * Filled in by spawn.c.
 *
 * The process shares the memory of PID 1 until it executes the program, and PID 1 continues beside
 * it. So nothing here may write to memory other than its own stack: no errno, no static variable,
 * no allocation. Its memory cannot be read or written by programs of the same user: PID 1 is not
 * dumpable. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/init/base/users.h"
#include "cell/init/pid1/spawn.h"
#include "cell/init/pid1/spawn_child.h"
#include "lib/base/err.h"
#include "lib/wire/agent_msg.h"

/* The last directory has programs that the template adds to those of /usr. */
#define SPAWN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cordon/bin"
#define SPAWN_EXTRA_ENV 14
#define SPAWN_SHORT_LIST 256

struct spawn_child {
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
bool spawn_child_is_guest(const struct spawn_child *c);

/* Execute the program, or write a struct spawn_failure to error_fd and exit. */
void spawn_child_run(const struct spawn_child *c) NORETURN;

/* Should the program of this request be started so? Not a built-in: it has no program to execute,
 * and not in a virtual machine, where a program begins in another cgroup (spawn_cgroup). */
bool spawn_child_is_shared(const struct agent_spawn *request);

/* A block. Its request is a copy of this one. NULL with errno: there is no memory. */
struct spawn_child *spawn_child_new(const struct agent_spawn *request);

/* Start a process that calls spawn_child_run(c). The block lives until spawn_child_end(). On -1
 * with errno, free it with spawn_child_free(). */
pid_t spawn_child_start_shared(struct spawn_child *c) MUST_USE;

void spawn_child_free(struct spawn_child *c);

/* This process has its program, or has exited: its block is freed, if there is one. */
void spawn_child_end(pid_t pid);
