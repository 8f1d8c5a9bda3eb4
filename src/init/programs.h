/* programs.h - the programs PID 1 was asked to start: running, ended and held, or about to be
 * reported.
 *
 * One table of AGENT_PROGRAMS_MAX. What the outside does not know yet about a program is a flag in
 * its record, not a message in a queue: the table bounds it, and it can be sent again over the next
 * connection. */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

#include "agent_msg.h"
#include "disk_usage.h"
#include "pty_pump.h"

/* Messages about one program that are still to be sent. HELD says all that STARTED and EXITED
 * would. */
enum {
	PROGRAM_SEND_HELD = 1 << 0,
	PROGRAM_SEND_STARTED = 1 << 1,
	PROGRAM_SEND_FAILED = 1 << 2,
	PROGRAM_SEND_EXITED = 1 << 3,
	PROGRAM_SEND_TREE_DEAD = 1 << 4,
};

struct program {
	bool used, held, tty, exited, timed_out;
	bool failed;	  /* it never ran: end is FAILED's */
	bool report_tree; /* TREE_DEAD is to be sent */
	bool leftover;	  /* a mark and nothing else, until its tree is dead */
	unsigned to_send;
	uint32_t handle;
	uint64_t mark;
	uint64_t deadline_ns; /* 0: none */
	uint64_t kill_end_ns; /* 0: its tree is not being killed; else when to give up */
	uint32_t tree_flags;  /* of TREE_DEAD */
	pid_t pid;
	int error_fd;	       /* >= 0 until the program runs */
	int stdio[3];	       /* the outside's ends, until sent or, if held, forgotten */
	struct pty_pump *pump; /* of a held PTY */
	struct disk_usage_samples disk_before; /* samples when it started */
	struct agent_event end;		       /* FAILED or EXITED */
};

/* Iterates over the records in use: NULL begins and ends. */
struct program *programs_next(const struct program *p);
struct program *programs_find(uint32_t handle);

/* Starts one. False: it could not, *ret_failed says why, and there is no record. */
bool programs_start(const struct agent_spawn *request, struct agent_event *ret_failed);

/* A record for what a forgotten program left running: it is exited, is never reported as HELD, and
 * is freed when its tree is dead and that was reported, if it is to be. NULL: the table is full. */
struct program *programs_add_leftover(uint32_t handle, uint64_t mark);

/* End of file on the error pipe: exec succeeded. Data on it: the start failed. */
void programs_on_started(struct program *p);

/* A child was reaped, with what it used. Any child: most are of no program. */
void programs_on_exit(pid_t pid, int status, const struct rusage *u);

/* How many run; and whether one of them is not held. */
unsigned programs_running(bool *ret_any_unheld);

/* Closes what PID 1 holds of it and frees the record. The program itself goes on. */
void programs_forget(struct program *p);

void programs_close_stdin(struct program *p);

/* The connection is gone. What is not held is killed and forgotten; of the rest, the next one is to
 * be told everything. */
void programs_on_disconnect(void);

/* Every deadline is later by that. */
void programs_delay_deadlines(uint64_t ms);

/* What all ended programs of the cell used, and how often the disk was full. */
void programs_usage(struct agent_event *v);
