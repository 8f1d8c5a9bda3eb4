/* programs.h - the table of programs that PID 1 started: running, or ended and still to be
 * reported, or held. A program is held if its SPAWN has AGENT_HOLD: PID 1 keeps copies of its
 * pipes and how it ended, until FORGET, so that a server that comes back can continue with it.
 *
 * The table has AGENT_PROGRAMS_MAX entries. agentd.c sends the events about them. Called by main.c
 * and kill_tree.c. */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

#include "cell/init/pid1/agentd.h"
#include "cell/init/pid1/disk_usage.h"
#include "cell/init/pid1/pty_pump.h"
#include "cell/init/pid1/spawn.h"

/* How many processes were killed for memory, and refused. */
struct limit_counts {
	uint64_t killed, refused;
};

struct program {
	struct agentd_program agent;
	uint64_t kill_end_ns;  /* when to stop killing its tree. 0: it is not being killed */
	uint64_t ended_ns;     /* when its end was seen */
	int error_fd;	       /* >= 0 until exec succeeded or failed */
	struct pty_pump *pump; /* of a held PTY */
	struct disk_usage_samples disk_before; /* counts when it started */
	struct limit_counts limits_before;     /* the same, in a guest */
};

/* Iterate over the entries in use: NULL begins and ends. */
struct program *programs_next(const struct program *p);
struct program *programs_find(uint32_t handle);

/* Start a program. False: it could not be started. *ret_failed has the reason, and there is no
 * entry.
 */
bool programs_start(const struct agent_spawn *request, struct agent_event *ret_failed);

/* Add an entry for processes that a forgotten program left running, known by its mark, so that
 * they can be killed. It counts as exited, is never sent as HELD, and is freed when the tree is
 * dead (and TREE_DEAD was sent, if report_tree). NULL: the table is full. */
struct program *programs_add_leftover(uint32_t handle, uint64_t mark);

/* The error pipe is readable. End of file: exec succeeded. Data: the start failed. */
void programs_on_started(struct program *p);

/* A child was reaped, with this use. Most children belong to no entry. */
void programs_on_exit(pid_t pid, int status, const struct rusage *u);

/* How many programs run. */
unsigned programs_running(void);

/* Close what PID 1 holds of a program and free its entry. The program itself continues to run. */
void programs_forget(struct program *p);

/* In a guest: the shim has sent all input for this pipe (its inode). PID 1 drops its copy. */
void programs_on_input_end(uint64_t pipe);

/* The connection is lost: kills and forgets all programs but held ones. Set HELD to be sent for the
 * others, over the next connection. */
void programs_on_disconnect(void);

/* An event about it was sent: frees the entry if nothing is left of it. */
void programs_on_sent(struct program *p);

/* The cell was frozen for ms: kills in progress end later by that. */
void programs_on_paused(uint64_t ms);

/* Fill in what all ended programs of the cell used, and in how many samples the disk was full. */
void programs_usage(struct agent_event *v);

/* Both are set once, by the boot code of a guest with a kernel of its own (guest_limits.c), and
 * NULL in a cell, where the daemon reads the counters of the cgroup. The second returns
 * AGENT_HIT_*: limits hit since the program began, with these counts, and not told of another
 * program. `more`: other programs run. Then one kill is told of each that fails, and one that ends
 * well takes none from them, but is told all that it saw. */
extern void (*programs_limit_counts)(struct limit_counts *ret);
extern uint32_t (*programs_limits_hit)(const struct limit_counts *before, bool failed, bool more);
