/* child_process.h - programs that were installed with this one, started as children: with
 * descriptors at the numbers they expect, and nothing else of ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

#define CHILD_PROCESS_FDS_MAX 64

/* The path of a program beside this one. */
int child_process_beside(const char *name, char *ret_path, size_t cap, struct err *e) MUST_USE;

struct child_process_start {
	const char *name;
	const char *word; /* its only argument; NULL: none */
	int out;	  /* borrowed: its standard output; 0: ours */
	const int *fds;	  /* borrowed; the first becomes 3, and so on; -1: lacks */
	size_t nfds;	  /* at most CHILD_PROCESS_FDS_MAX */
	bool drop;	  /* to these, without further groups; else it stays who we are */
	uid_t uid;
	gid_t gid;
};

/* A session of its own, no new privileges, no environment, no blocked signals. */
int child_process_start(const struct child_process_start *how, pid_t *ret_pid,
			struct err *e) MUST_USE;

/* One that is started again whenever it ends, with growing pauses if that is at once. */
struct child_process {
	const char *name;
	pid_t pid; /* 0: not running */
	uint64_t since_ns, again_ns, pause_ms;
};

/* Now; in the log. */
void child_process_started(struct child_process *c);
/* It could not be started, or has ended. */
void child_process_plan_again(struct child_process *c);
void child_process_failed(struct child_process *c, const struct err *e);
/* Whether it is time to start it. */
bool child_process_is_due(const struct child_process *c);
