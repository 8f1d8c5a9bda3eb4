/* execution.h - one command in a session, from its start to its record. Called by the interfaces.
 * The last part is for the core's own files.
 *
 * execution.c has its life, execution_io.c its streams, execution_calls.c the reads and requests of
 * others, execution_deadline.c the end of its remaining processes.
 */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "daemon/store/store_execution.h"

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

/* The column `kind` of a row. */
enum execution_kind {
	EXECUTION_FOREGROUND,
	EXECUTION_BACKGROUND,
	EXECUTION_SERVICE,     /* the start command of a template */
	EXECUTION_INTERPRETER, /* a start command, or the added server, that runs code:
				  session_service.h */
	EXECUTION_CALL,	       /* code sent to the port of an interpreter: code_execution.h */
	EXECUTION_KINDS
};

struct execution_spec {
	uint32_t argc; /* strings: argc arguments, then envc assignments, each with its NUL */
	uint32_t envc; /* added to (and before) the session's own */
	const char *strings;
	size_t strings_len;
	const char *cwd, *user; /* NULL or "": defaults */
	uint64_t timeout_ms;	/* 0: default */
	uint64_t output_limit;	/* 0: default */
	bool stdin_open;	/* else end of file at once */
	bool results;		/* its descriptor 3 is a stream, too. Not with tty */
	bool tty;
	uint16_t rows, cols;
	bool record_input; /* keep the input of clients in its log, for a recording */
	bool background;
	enum execution_kind kind; /* if not 0, the execution is in the background and has no default
				     time limit */
	bool keep_text;		  /* record the command itself, not only its hash */
	const char *text;	  /* the command as requested, for the record */
	const uint8_t
		*hash; /* of that text, if the caller does not have it. NULL: text is complete */
	const char *language; /* of code. NULL: none, or not known */
	const char *context;  /* of code, as for language */
	/* Data of the interface, opaque here and deleted at the end. "" or NULL: none. */
	const char *client;
	const char *secrets; /* lines of secret_spec.h, only for this execution. NULL: none */
	const struct store_actor *actor; /* on whose behalf. NULL: the server itself */
	const struct store_once *once;	 /* written with the record. NULL: none */
};

/* Start a command. The session must be running (session_use()). The record is in the store when
 * this returns. */
struct execution *execution_start(struct session *s, const struct execution_spec *spec,
				  struct err *e) MUST_USE;

/* Read the record of any execution of that session, live or ended. */
int execution_get(struct core *c, const char *session_id, const char *id,
		  struct store_execution *ret, struct err *e) MUST_USE;
/* Find the live execution of that id, or NULL. */
struct execution *execution_live(struct session *s, const char *id);
/* Find the live execution whose processes have this mark (file_msg_process), or NULL. */
struct execution *execution_by_mark(struct session *s, uint64_t mark);
/* Find the id of the execution of this session, live or ended, whose processes have this mark. ""
 * if there is none. */
int execution_id_by_mark(struct session *s, uint64_t mark, char ret_id[STORE_ID_MAX],
			 struct err *e) MUST_USE;

/* Find the id of an execution with this pid that ended at most 30 seconds ago, or NULL. */
const char *execution_past_by_pid(struct session *s, uint32_t pid);
/* The live execution after x, in no order. x NULL: the first. */
struct execution *execution_next(struct session *s, struct execution *x);
/* Call see for every live execution of the session, in no order. */
void execution_each(struct session *s, void (*see)(struct execution *x, void *arg), void *arg);

const struct store_execution *execution_row(const struct execution *x);
/* Its process id inside the cell. 0 before it runs. */
uint32_t execution_pid(const struct execution *x);
/* The mark of all its processes, as the built-in "processes" shows it. */
uint64_t execution_mark(const struct execution *x);
bool execution_ended(const struct execution *x);
/* Ended, and no process holds its output open. */
bool execution_complete(const struct execution *x);
/* Has a client sent it a signal? Not known any more after a restart of the daemon. */
bool execution_signalled(const struct execution *x);

/* Is the name in a list of limits (row.limits_hit), as a whole word between commas? */
bool execution_limit_in(const char *list, const char *name);

/* Why some of its output was not kept: one of output.h's reasons, "" if all of it was. */
const char *execution_cut(const struct execution *x);

/* The reason why a failed execution did not run. The function also returns the errno. */
enum execution_fault {
	EXECUTION_NO_FAULT,
	EXECUTION_NO_USER,
	EXECUTION_NO_CWD,
	EXECUTION_NO_PROGRAM,
	EXECUTION_NO_PROCESS /* the session could not start one */
};
enum execution_fault execution_fault(const struct execution *x, int *ret_sys);

/* w ends when the execution has ended (its outcome is known and its output up to then is in the
 * log), or soon if it already has. In w's callback the execution and its row can still be read. */
void execution_wait(struct execution *x, struct completion *w);

/* Kill the execution with all processes that it started. w ends when they are dead. If PID 1 does
 * not end a running one in time, the cell is ended. ERR_LIMIT: some processes remain. */
void execution_kill(struct execution *x, struct completion *w);
/* Kill the remaining children of an execution no longer live, by the mark in its row. The session
 * must be running (session_use()). ERR_LIMIT: too many at once, or some processes remain. */
void execution_kill_ended(struct session *s, uint64_t mark, struct completion *w);
int execution_signal(struct execution *x, int sig, struct err *e) MUST_USE;
int execution_resize(struct execution *x, uint16_t rows, uint16_t cols, struct err *e) MUST_USE;

/* Write to its standard input and return how many bytes were taken. 0: the pipe is full, and w (if
 * not NULL) ends when there is room. -1: its standard input is closed, or it never had one
 * (ERR_CONFLICT), or a write failed and closed it on this side only (ERR_SYSTEM). */
ssize_t execution_input(struct execution *x, const void *data, size_t len, struct completion *w,
			struct err *e);
void execution_close_input(struct execution *x);

/* Calls f->on_progress when the log has grown or the state has changed, at most once in a turn of
 * the loop. An execution with a follower stays in memory, even complete, so that execution_row()
 * can be read, until execution_unfollow(). */
struct execution_follower {
	struct execution_follower *next, **link; /* the core's */
	struct execution *execution;		 /* NULL: not following (any more) */
	bool calling;				 /* the core's: in this turn */
	void (*on_progress)(struct execution_follower *f);
	void *arg; /* the caller's */
};
void execution_follow(struct execution *x, struct execution_follower *f);
void execution_unfollow(struct execution_follower *f);

/* Open its log for output_read(). *ret_fd is -1 if there is no output so far (a follower tries
 * again on progress), or if none of it is kept (execution_log_lost()). The caller closes it. Until
 * then the log is not removed to make room for others of the session. */
int execution_log(struct core *c, const char *session_id, const char *id, int *ret_fd,
		  struct err *e) MUST_USE;

/* Did an execution without a log lose output? */
bool execution_log_lost(const struct store_execution *row);

/* For the part that checks the secrets of a new execution: set the column of its record. */
void execution_set_secrets(struct execution *x, const char *lines);

/* ---- for the core's own files */

/* Send the SPAWN to PID 1. */
int execution_send(struct execution *x, const struct execution_spec *spec, struct err *e) MUST_USE;

struct live_cell;
struct agent_event;
struct json;

/* Write the session's default environment into the open JSON object. */
int execution_env(struct execution *x, struct json *to, struct err *e) MUST_USE;

/* For execution_adopt.c. Allocate an empty execution of the session. */
struct execution *execution_new(struct session *s);
/* Fill in its row and write it. */
int execution_record(struct execution *x, const struct execution_spec *spec,
		     struct err *e) MUST_USE;
/* Take the descriptors of a started program. Return how many: all of them, or none. */
unsigned execution_on_started(struct execution *x, const struct agent_event *v, const int *fds,
			      unsigned n);
/* Handle an event of PID 1. type: AGENT_STARTED (with descriptors in c->agent), FAILED, EXITED or
 * TREE_DEAD. */
void execution_on_event(struct execution *x, struct live_cell *c, unsigned type,
			const struct agent_event *v);

/* The execution exited, and its output is in its log: fill in the outcome. */
void execution_exited(struct execution *x);
/* End it as lost: its cell is gone, or PID 1 does not know the execution. */
void execution_lost(struct execution *x);
/* Write the outcome in the row to the store, and end all waiters. */
void execution_finish(struct execution *x);
/* Copy the byte counts of its log into the row. */
void execution_count_out(struct execution *x);
/* Once a second: send PID 1 what its queue has refused, and a client was told is done. */
void execution_retry_orders(struct execution *x);
/* Once a second: write an outcome whose write has failed. */
void execution_retry_save(struct execution *x);
void execution_free(struct execution *x);

/* End all live executions of the session: they are lost with its cell. */
void execution_lose_all(struct session *s);
