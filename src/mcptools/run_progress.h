/* run_progress.h - how far an execution is, for the progress of a call: bytes written so far, and
 * the last line. The tools that wait for an execution call it, once a second. */
#pragma once

#include "tool.h"

struct execution;

struct run_progress {
	int log; /* 0: not open yet */
	uint64_t cursor;
	struct buf last;
};

/* p is all zero before the first call. The execution is followed by the caller. */
void run_progress_show(struct run_progress *p, struct tool_call *c, struct execution *x,
		       uint64_t *ret_done, struct buf *message);
void run_progress_release(struct run_progress *p); /* safe if it is all zero */
