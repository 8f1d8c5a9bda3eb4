/* spawn.h - starts one program in the cell: user, directory, environment, pipes or a PTY. */
#pragma once

#include <sys/types.h>

#include "agent_msg.h"

/* How a start went wrong; also what the child writes to its error pipe. */
struct spawn_failure {
	uint32_t stage; /* enum agent_stage */
	int32_t sys;
};

/* A program on its way. Descriptors are owned by the holder. */
struct spawn {
	pid_t pid;
	int error_fd; /* says a struct spawn_failure, or ends when the program runs */
	int stdio[3]; /* the outside's ends: stdin, stdout, stderr; with a PTY only the first */
	size_t nstdio;
};

/* Forks. Whether the program really runs is known when error_fd says so. */
int spawn_start(const struct agent_spawn *request, struct spawn *ret,
		struct spawn_failure *fail) MUST_USE;
