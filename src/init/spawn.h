/* spawn.h - starts one program in the cell: user, directory, environment, pipes or a PTY. */
#pragma once

#include <sys/types.h>

#include "agent_msg.h"

/* How a start went wrong; also what the child writes to its error pipe. */
struct spawn_failure {
	uint32_t stage; /* enum agent_stage */
	int32_t sys;
};

/* A program on its way. Descriptors are owned by the holder; -1 where there is none. */
struct spawn {
	pid_t pid;
	int error_fd; /* says a struct spawn_failure, or ends when the program runs */
	/* The outside's ends: stdin, stdout, stderr. A held PTY has input and output only, another
	 * PTY only itself. */
	int stdio[3];
	/* A held PTY: itself, and the ends of the two pipes that PID 1 moves bytes to and from. */
	int master, output, input;
};

/* Forks, and gives the program that mark (0: none). Whether it really runs is known when error_fd
 * says so. */
int spawn_start(const struct agent_spawn *request, uint64_t mark, struct spawn *ret,
		struct spawn_failure *fail) MUST_USE;
