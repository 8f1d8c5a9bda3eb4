/* execution.h - one command in a session, from its start to its record. Called by the interfaces;
 * the last part is for the core's own files.
 *
 * execution.c has its life, execution_io.c its streams, execution_calls.c what others read and ask
 * of it, execution_kill.c the end of what it left behind. */
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

/* The column `kind` of a row. */
enum execution_kind {
	EXECUTION_FOREGROUND,
	EXECUTION_BACKGROUND,
	EXECUTION_SERVICE,     /* the start command of a template */
	EXECUTION_INTERPRETER, /* the same, or one like it, that runs code: session_service.h */
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
	bool results;		/* its descriptor 3 is a stream, too; not with tty */
	bool tty;
	uint16_t rows, cols;
	bool background;
	enum execution_kind kind; /* if it is more than background; then without a time limit */
	bool keep_text;		  /* record the command itself, not only its hash */
	const char *text;	  /* what was asked for, for the record */
	const uint8_t *hash;	  /* of that text, if it is not at hand; NULL: it is */
	const char *language;	  /* of code; NULL: none, or not known */
	const char *context;	  /* the same */
	/* What the interface keeps with it, opaque here and deleted at its end. "" or NULL: none.
	 */
	const char *client;
	const char *secrets; /* lines of secret_spec.h that only this execution has; NULL: none */
	const struct store_actor *actor; /* on whose behalf; NULL: the server itself */
};

/* Starts a command. The session must be running (session_use()). The record is in the store when
 * this returns. */
struct execution *execution_start(struct session *s, const struct execution_spec *spec,
				  struct err *e) MUST_USE;

/* The record of any execution of that session, live or ended. */
int execution_get(struct core *c, const char *session_id, const char *id,
		  struct store_execution *ret, struct err *e) MUST_USE;
/* The live execution of that id, or NULL. */
struct execution *execution_live(struct session *s, const char *id);
/* The live execution whose processes have this mark (file_msg_process), or NULL. */
struct execution *execution_by_mark(struct session *s, uint64_t mark);
/* The id of the execution of this session, live or ended, whose processes have this mark; "" if
 * there is none. */
int execution_id_by_mark(struct session *s, uint64_t mark, char ret_id[STORE_ID_MAX],
			 struct err *e) MUST_USE;

/* The id of an execution with this pid that ended at most 30 seconds ago, or NULL. */
const char *execution_past_by_pid(struct session *s, uint32_t pid);
/* The live execution after x, in no order; x NULL: the first. */
struct execution *execution_next(struct session *s, struct execution *x);
/* Calls see for every live execution of the session, in no order. */
void execution_each(struct session *s, void (*see)(struct execution *x, void *arg), void *arg);

const struct store_execution *execution_row(const struct execution *x);
/* Its process id inside the cell; 0 before it runs. */
uint32_t execution_pid(const struct execution *x);
/* The mark that the built-in "processes" shows for every process that it started. */
uint64_t execution_mark(const struct execution *x);
bool execution_ended(const struct execution *x);
/* Ended, and no process holds its output open. */
bool execution_complete(const struct execution *x);
/* Has a client sent it a signal? Not known any more after a restart of the daemon. */
bool execution_signalled(const struct execution *x);

/* Why some of its output was not kept: one of output.h's reasons, "" if all was. */
const char *execution_cut(const struct execution *x);

/* What kept a failed execution from running, and the errno. */
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

/* Kills the execution with all processes that it started; w ends when they are dead. */
void execution_kill(struct execution *x, struct completion *w);
/* The same for an execution that is not live any more but may have left children, by the mark in
 * its row. The session must be running (session_use()). ERR_LIMIT: too many at once, or some
 * processes are left. */
void execution_kill_ended(struct session *s, uint64_t mark, struct completion *w);
int execution_signal(struct execution *x, int sig, struct err *e) MUST_USE;
int execution_resize(struct execution *x, uint16_t rows, uint16_t cols, struct err *e) MUST_USE;

/* Writes to its standard input; returns how many bytes were taken. 0: the pipe is full, and w (if
 * not NULL) ends when there is room. -1: its standard input is closed, or it never had one
 * (ERR_CONFLICT); or it could not be written, and is closed on this side only (ERR_SYSTEM). */
ssize_t execution_input(struct execution *x, const void *data, size_t len, struct completion *w,
			struct err *e);
void execution_close_input(struct execution *x);

/* Calls f->on_progress when its log has grown or its state has changed, at most once in a turn of
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

/* Opens its log for output_read(). *ret_fd is -1 if there is no output so far (a follower tries
 * again on progress), or if none of it is kept (execution_log_lost()). The caller closes it; until
 * then the log is not removed to make room for others of the session. */
int execution_log(struct core *c, const char *session_id, const char *id, int *ret_fd,
		  struct err *e) MUST_USE;

/* Did an execution without a log have output, which is not kept? */
bool execution_log_lost(const struct store_execution *row);

/* For the part that checks the secrets of a new execution: what the record gets. */
void execution_set_secrets(struct execution *x, const char *lines);

/* ---- for the core's own files */

/* Sends it to PID 1. */
int execution_send(struct execution *x, const struct execution_spec *spec, struct err *e) MUST_USE;

struct live_cell;
struct agent_event;
struct json;

/* Appends the environment that an execution of the session gets if it brings none of its own, as
 * members of the object that is open. */
int execution_env(struct execution *x, struct json *to, struct err *e) MUST_USE;

/* For execution_adopt.c. One of the session, with nothing in it. */
struct execution *execution_new(struct session *s);
/* Fills in its row and writes it. */
int execution_record(struct execution *x, const struct execution_spec *spec,
		     struct err *e) MUST_USE;
/* Returns how many of the descriptors it took: all of them, or none. */
unsigned execution_on_started(struct execution *x, const struct agent_event *v, const int *fds,
			      unsigned n);
/* type: AGENT_STARTED (with descriptors in c->agent), FAILED, EXITED or TREE_DEAD. */
void execution_on_event(struct execution *x, struct live_cell *c, unsigned type,
			const struct agent_event *v);

/* The execution exited, and what it wrote is in its log. */
void execution_exited(struct execution *x);
/* Its cell is gone, or PID 1 does not know the execution. */
void execution_lost(struct execution *x);
/* The outcome is in the row: writes it to the store, and ends what waits for it. */
void execution_finish(struct execution *x);
/* Copies the byte counts of its log into the row. */
void execution_count_out(struct execution *x);
/* Once a second: writes an outcome that could not be written. */
void execution_retry_save(struct execution *x);
void execution_free(struct execution *x);
