/* execution.h - one command in a session: started, followed, fed, ended, recorded. */
#pragma once

#include "core.h"
#include "session.h"
#include "store_execution.h"

struct execution; /* a live one: starting, running, or ended with output still open */

enum execution_state {
	EXECUTION_STARTING,
	EXECUTION_RUNNING,
	EXECUTION_EXITED,
	EXECUTION_KILLED, /* by a signal, a timeout or a limit */
	EXECUTION_FAILED, /* never ran */
	EXECUTION_STATES
};

const char *execution_state_name(enum execution_state s);

/* kind of a row */
enum execution_kind { EXECUTION_FOREGROUND, EXECUTION_BACKGROUND, EXECUTION_KINDS };

struct execution_spec {
	uint32_t argc; /* strings: argc arguments, then envc assignments, each with its NUL */
	uint32_t envc; /* added to (and before) the session's own */
	const char *strings;
	size_t strings_len;
	const char *cwd, *user; /* NULL or "": defaults */
	uint64_t timeout_ms;	/* 0: default */
	uint64_t output_limit;	/* 0: default */
	bool stdin_open;	/* else end of file at once */
	bool tty;
	uint16_t rows, cols;
	bool background;
	bool keep_text;	  /* record the command itself, not only its hash */
	const char *text; /* what was asked for, for the record */
	/* Of the interface that asks, opaque here; forgotten when it ended. "" or NULL: none. */
	const char *client;
	const char *secrets; /* lines of secret_spec.h that only this execution has; NULL: none */
	const struct store_actor *actor; /* who asks; NULL: the server itself */
};

/* The session must be running (session_use). The record is in the store when this returns. */
struct execution *execution_start(struct session *s, const struct execution_spec *spec,
				  struct err *e) MUST_USE;

/* The record of any execution of that session, live or ended. */
int execution_get(struct core *c, const char *session_id, const char *id,
		  struct store_execution *ret, struct err *e) MUST_USE;
/* The live one of that id, or NULL. */
struct execution *execution_live(struct session *s, const char *id);
/* The live one whose processes have this mark (file_msg_process), or NULL. */
struct execution *execution_by_mark(struct session *s, uint64_t mark);

/* The id of one with this pid that ended at most 30 seconds ago, or NULL. */
const char *execution_past_by_pid(struct session *s, uint32_t pid);
/* The live one after x, in no order; NULL: the first. */
struct execution *execution_next(struct session *s, struct execution *x);
/* All live ones, in no order. */
void execution_each(struct session *s, void (*see)(struct execution *x, void *arg), void *arg);

const struct store_execution *execution_row(const struct execution *x);
/* Inside the cell; 0 before it runs. */
uint32_t execution_pid(const struct execution *x);
/* What the built-in "processes" shows as the mark of all that it started. */
uint64_t execution_mark(const struct execution *x);
bool execution_ended(const struct execution *x);
/* Ended, and no process holds its output open. */
bool execution_complete(const struct execution *x);
/* A client sent it a signal. Not kept over a restart of the daemon. */
bool execution_signalled(const struct execution *x);

/* Why some of its output was not kept: one of output.h's reasons, "" if all was. */
const char *execution_cut(const struct execution *x);

/* What kept a failed one from running, and the errno. */
enum execution_fault {
	EXECUTION_NO_FAULT,
	EXECUTION_NO_USER,
	EXECUTION_NO_CWD,
	EXECUTION_NO_PROGRAM,
	EXECUTION_NO_PROCESS /* the session could not start one */
};
enum execution_fault execution_fault(const struct execution *x, int *ret_sys);

/* w ends when it has ended (outcome known and output up to then in the log), or soon if it already
 * has. Inside done the execution and its row are still there. */
void execution_wait(struct execution *x, struct completion *w);

/* Kills the whole tree; w ends when it is dead. */
void execution_kill(struct execution *x, struct completion *w);
/* The same for one that is not live any more, but may have left children: the mark in its row. Its
 * session must be running (session_use). ERR_LIMIT: too many at once, or some are left. */
void execution_kill_ended(struct session *s, uint64_t mark, struct completion *w);
int execution_signal(struct execution *x, int sig, struct err *e) MUST_USE;
int execution_resize(struct execution *x, uint16_t rows, uint16_t cols, struct err *e) MUST_USE;

/* Gives bytes to its stdin; returns how many were taken: 0 means full, and w (if not NULL) ends
 * when there is room. -1: it has no open stdin (any more). */
ssize_t execution_input(struct execution *x, const void *data, size_t len, struct completion *w,
			struct err *e);
void execution_close_input(struct execution *x);

/* Tells f->more whenever its log grew or its state changed, coalesced per turn. A live execution
 * with a follower stays in memory, even complete, so that execution_row() can be read; if its cell
 * dies it is complete. Unfollow when done. */
struct execution_follower {
	struct execution_follower *next, **link; /* the core's */
	struct execution *execution;		 /* NULL: not following (any more) */
	void (*more)(struct execution_follower *f);
	void *arg; /* the caller's */
};
void execution_follow(struct execution *x, struct execution_follower *f);
void execution_unfollow(struct execution_follower *f);

/* Opens its log for output_read(); *ret_fd is -1 if it said nothing (yet: try again when told of
 * more), or if nothing of it is kept (execution_log_lost()). The caller closes it; until then the
 * log is not removed to make room for others of its session. */
int execution_log(struct core *c, const char *session_id, const char *id, int *ret_fd,
		  struct err *e) MUST_USE;

/* Of an execution that has no log: did it say something all the same? */
bool execution_log_lost(const struct store_execution *row);

/* For the part that checks the secrets of a new execution: what the record gets. */
void execution_set_secrets(struct execution *x, const char *lines);

/* ---- for the core's own files */

/* Sends it to PID 1. */
int execution_send(struct execution *x, const struct execution_spec *spec, struct err *e) MUST_USE;

struct live_cell;
struct agent_event;

/* One of an earlier daemon, by its row; PID 1 then says whether it holds it. */
int execution_recover(struct session *s, const struct store_execution *row, struct err *e) MUST_USE;
/* PID 1 holds it; or it failed to start, and the earlier daemon may not know. */
void execution_adopt(struct execution *x, struct live_cell *c, const struct agent_event *v);
void execution_adopt_failed(struct execution *x, struct live_cell *c, const struct agent_event *v);
struct execution *execution_by_handle(struct session *s, uint32_t handle);
/* It exited, and what it wrote is in its log. */
void execution_exited(struct execution *x);
/* Its cell is gone, or does not know it. */
void execution_lost(struct execution *x);
/* Its outcome is in the row: writes it, and ends what waits for it. */
void execution_finish(struct execution *x);
/* Copies the counts of its log into the row. */
void execution_count_out(struct execution *x);
/* Once a second: writes an outcome that could not be written. */
void execution_retry_save(struct execution *x);
void execution_free(struct execution *x);
