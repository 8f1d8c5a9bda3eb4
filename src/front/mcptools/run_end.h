/* run_end.h - the report of the tool `run` on an ended execution: the beginning and end of its
 * output, files that it changed, and refusals of the network policy during it. In pieces, in the
 * tenant's share of the loop. Called by tool_run.c, and partly by tool_create_session.c. */
#pragma once

#include "front/mcptools/run_results.h"
#include "front/mcptools/tool.h"
#include "front/web/changes.h"
#include "lib/loop/jobs.h"

#define RUN_END_CHANGES 50
#define RUN_END_DENIED 10

struct run_end {
	struct tool_call *c;
	struct execution *x; /* followed by the caller until the end */
	bool with_changes;   /* report files that changed */
	bool is_code;	     /* report results */
	uint64_t net_seq;    /* the last network record before it started */
	struct job job;
	struct excerpt excerpt;
	struct run_results results; /* of code, when the excerpt is complete */
	struct changes changes;
	uint64_t slack_ms; /* that times of files may be before those of cordond */
	struct json files; /* files_changed, as it grows */
	unsigned nfiles;
	bool more_files;
	struct buf denied; /* what was refused as lines "name: reason", for on_written */
	bool (*is_there)(const struct run_end *n); /* is x still followed? */
	void (*on_written)(struct run_end *n);	   /* the result is written, but for tool_done() */
};

/* Begin. Failures are answered. */
void run_end_start(struct run_end *n);
void run_end_release(struct run_end *n); /* safe if it is all zero */

/* ---- progress
 *
 * How far an execution is, for the progress of a call: bytes written so far, and
 * the last line. The tools that wait for an execution call it, once a second. */

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
