/* child_process.h - starts programs installed beside this one as children, with
 * descriptors at the numbers that they expect and no others. For cordon serve and cordon run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

#define CHILD_PROCESS_FDS_MAX 64

struct child_process_start {
	const char *name;
	const char *word; /* its only argument. NULL: none */
	int out;	  /* borrowed: its standard output. 0: the caller's */
	const int *fds; /* borrowed. The first becomes 3, and so on. -1: the number stays closed */
	size_t nfds;	/* at most CHILD_PROCESS_FDS_MAX */
	bool drop; /* become this user and group, without further groups. False: keep the caller's
		    */
	uid_t uid;
	gid_t gid;
	int userns; /* borrowed: becomes root of this user namespace. 0 or -1: keeps its own */
};

/* The child has a session of its own, no new privileges, no environment, no blocked signals. */
int child_process_start(const struct child_process_start *how, pid_t *ret_pid,
			struct err *e) MUST_USE;

/* A child started again at each end, after growing pauses if it ends at once. */
struct child_process {
	const char *name;
	pid_t pid; /* 0: not running */
	uint64_t since_ns, again_ns, pause_ms;
	unsigned quick_ends; /* in a row, right after a start */
};

/* Called when the child was started. Log it. */
void child_process_started(struct child_process *c);
/* Called when the child has ended: plans the next start. The second also logs why it could not be
 * started. */
void child_process_plan_again(struct child_process *c);
void child_process_failed(struct child_process *c, const struct err *e);
/* Whether it is time to start it. */
bool child_process_is_due(const struct child_process *c);
