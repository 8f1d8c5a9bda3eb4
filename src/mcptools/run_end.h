/* run_end.h - what the tool `run` reports when its execution has ended: the beginning and end of
 * its output, files that it changed, and what the network policy refused meanwhile. In pieces, in
 * the tenant's share of the loop. tool_run.c calls it, and clone.c, which uses parts of it. */
#pragma once

#include "changes.h"
#include "excerpt.h"
#include "jobs.h"
#include "run_results.h"
#include "tool.h"

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

/* Begins. Failures are answered. */
void run_end_start(struct run_end *n);
void run_end_release(struct run_end *n); /* safe if it is all zero */
