/* programs.h - the table of programs that PID 1 started: running, or ended and still to be
 * reported, or held. A program is held if its SPAWN has AGENT_HOLD: PID 1 keeps copies of its
 * pipes and how it ended, until FORGET, so that a server that comes back can continue with it.
 *
 * The table has AGENT_PROGRAMS_MAX entries. What is still to be sent about a program is a set of
 * flags in its entry, not a queue of messages: so it is bounded, and can be sent again over the
 * next connection. Called by main.c, event_out.c and kill_tree.c. */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

#include "agent_msg.h"
#include "disk_usage.h"
#include "pty_pump.h"
#include "spawn.h"

/* Events about one program that are still to be sent. HELD has everything of STARTED and EXITED. */
enum {
	PROGRAM_SEND_HELD = 1 << 0,
	PROGRAM_SEND_STARTED = 1 << 1,
	PROGRAM_SEND_FAILED = 1 << 2,
	PROGRAM_SEND_EXITED = 1 << 3,
	PROGRAM_SEND_TREE_DEAD = 1 << 4,
};

struct program {
	bool used, held, tty, exited, timed_out;
	bool failed;	  /* it could not be started: end is of FAILED */
	bool report_tree; /* send TREE_DEAD when its tree is dead */
	bool leftover;	  /* see programs_add_leftover() */
	unsigned to_send; /* set of PROGRAM_SEND_* */
	uint32_t handle;
	uint64_t mark;
	uint64_t deadline_ns; /* 0: none */
	uint64_t kill_end_ns; /* when to stop killing its tree; 0: it is not being killed */
	uint64_t ended_ns;    /* when its end was seen */
	uint32_t tree_flags;  /* of TREE_DEAD */
	pid_t pid;
	int error_fd;		/* >= 0 until exec succeeded or failed */
	int stdio[SPAWN_STDIO]; /* the server's ends, until sent; if held, until FORGET */
	struct pty_pump *pump;	/* of a held PTY */
	struct disk_usage_samples disk_before; /* counts when it started */
	struct agent_event end;		       /* FAILED or EXITED */
};

/* Iterates over the entries in use: NULL begins and ends. */
struct program *programs_next(const struct program *p);
struct program *programs_find(uint32_t handle);

/* Starts a program. False: it could not be started; *ret_failed has the reason, and there is no
 * entry.
 */
bool programs_start(const struct agent_spawn *request, struct agent_event *ret_failed);

/* Adds an entry for processes that a forgotten program left running, known by its mark, so that
 * they can be killed. It counts as exited, is never sent as HELD, and is freed when the tree is
 * dead (and TREE_DEAD was sent, if report_tree). NULL: the table is full. */
struct program *programs_add_leftover(uint32_t handle, uint64_t mark);

/* The error pipe is readable. End of file: exec succeeded. Data: the start failed. */
void programs_on_started(struct program *p);

/* A child was reaped, with what it used. Most children belong to no entry. */
void programs_on_exit(pid_t pid, int status, const struct rusage *u);

/* How many programs run. */
unsigned programs_running(void);

/* Closes what PID 1 holds of a program and frees its entry. The program itself continues to run. */
void programs_forget(struct program *p);

void programs_close_stdin(struct program *p);

/* In a guest: the shim has sent all input for this pipe (its inode). PID 1 drops its copy. */
void programs_on_input_end(uint64_t pipe);

/* The connection is lost: kills and forgets programs that are not held; sets HELD to be sent for
 * the others, over the next connection. */
void programs_on_disconnect(void);

/* The cell was frozen for ms: every deadline is later by that. */
void programs_delay_deadlines(uint64_t ms);

/* Fills in what all ended programs of the cell used, and in how many samples the disk was full. */
void programs_usage(struct agent_event *v);

/* Set once, by the boot code of a guest with a kernel of its own (guest_limits.c); NULL in a cell.
 * Returns AGENT_HIT_*: limits that were hit and not told of a program yet. `more`: other programs
 * run, and one kill is told of each that fails. */
extern uint32_t (*programs_limits_hit)(bool more);
