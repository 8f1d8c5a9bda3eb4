/* session_hooks.h - parts of a session unknown to the core: secrets, network access.
 *
 * A part is a table of functions, given to core_new() in core_options.parts. The core calls every
 * part at the points below, in the order of that list. A function may be NULL. A part keeps its
 * data for the node and for each session behind one pointer each, which only the part reads
 * (session_parts_of_core(), session_parts_of()).
 *
 * Parts use the functions of session.h and core.h, as the interfaces do, and those in the second
 * half of this file. They do not see struct session or struct core.
 */
#pragma once

#include "daemon/session/session.h"

struct agent_event;
struct buf;
struct execution;
struct live_cell;

struct session_part {
	const char *name;

	/* ---- of the node */

	/* At the start: tenants are known, sessions are not. */
	int (*setup)(struct core *c, struct err *e);
	/* At the end, after all sessions. Also after a failed setup. */
	void (*release)(struct core *c);
	void (*on_second)(struct core *c);
	/* Is the part fit to serve? ret_why names the missing condition. */
	bool (*is_fit)(const struct core *c, const char **ret_why);
	/* Set the part's metrics, and append text of its own. */
	void (*on_metrics)(struct core *c, struct buf *b);
	/* Delete one thing of a tenant in removal. False: none is left. */
	bool (*delete_one)(struct core *c, struct tenant *t);

	/* ---- of one session */

	/* Before a new session is admitted: may the session be as its row says? */
	int (*check)(struct session *s, struct err *e);
	/* The cell is up for the first time. If the part is not ready then, the session is not
	 * usable until session_parts_settled(). */
	void (*on_started)(struct session *s);
	bool (*is_ready)(const struct session *s);
	/* A session of an earlier daemon is in memory again, with a cell or without one. */
	void (*on_restored)(struct session *s);
	/* Before a cell is made in which programs or files of an earlier cell continue, of the
	 * session itself or of the session whose memory it begins with. */
	void (*on_making)(struct session *s);
	/* Called for a restored session before its PID 1 has reconnected. */
	void (*on_adopted)(struct session *s);
	/* The session was resumed, or it was adopted and PID 1 has answered. */
	void (*on_resumed)(struct session *s);
	/* After session_parts_changed(), from the loop. */
	void (*on_changed)(struct session *s);
	void (*on_session_second)(struct session *s);
	/* Its usage was read. Must not end a session. */
	void (*on_sampled)(struct session *s, const struct session_sample *now);
	/* PID 1 of its cell, or its guest, broke the protocol or does not answer. what: a constant
	 * text. Must not end the session. */
	void (*on_fault)(struct session *s, const char *what);
	/* May a new execution have these secrets (lines of secret_spec.h) for itself? The part that
	 * answers calls execution_set_secrets(). */
	int (*check_execution)(struct session *s, struct execution *x, const char *secrets,
			       struct err *e);
	/* May other sessions begin with the memory of its guest? same: they will have the settings
	 * of this row. */
	int (*check_memory)(struct session *s, bool same, struct err *e);
	/* Append the values that must not be in files of other sessions: each with its length
	 * before it, in four bytes. same: these have the settings of this row. */
	int (*add_values)(struct session *s, bool same, struct buf *to, struct err *e);
	/* A layer has files of the session, and gets its row next. Note the values that sessions
	 * with the layer must mask. kind: of the capture. */
	int (*keep_values)(struct session *s, const char *layer, const char *kind, struct err *e);
	/* Before a new execution with secrets of its own is sent to PID 1. True: the part begins w,
	 * which ends when the program may start, or with an error. */
	bool (*prepare)(struct session *s, struct execution *x, struct completion *w);
	/* The execution's outcome is known. Processes that it started may still run. */
	void (*on_execution_ended)(struct session *s, struct execution *x);
	/* Append "NAME=value" strings, each with its NUL, to the environment of an execution. */
	void (*add_env)(struct session *s, struct execution *x, struct buf *to);
	/* PID 1 passed the sockets of the cell's network. The descriptors are in c->agent.fds. */
	void (*on_egress_listens)(struct session *s, struct live_cell *c,
				  const struct agent_event *v);
	/* The session continues without its cell (session_suspend.h). on_started follows with its
	 * next cell. */
	void (*on_cell_gone)(struct session *s, const struct err *why);
	/* The session stops. why: the error for all who wait. */
	void (*on_ending)(struct session *s, const struct err *why);
	/* The record of the session's end is written next, in the same transaction. An error rolls
	 * it back. */
	int (*finish)(struct session *s, struct err *e);
	/* The session leaves memory. It may live on, if only the daemon ends. */
	void (*on_free)(struct session *s, const struct err *why);
};

/* ---- for parts */

/* Return the part's own pointer for the node, or for the session. NULL at first. */
void **session_parts_of_core(const struct core *c, const struct session_part *p);
void **session_parts_of(const struct session *s, const struct session_part *p);

/* Mark the session as changed: its settings, or those of its tenant. The core calls on_changed of
 * its parts, after this turn of the loop and for as many sessions as 5 ms of each turn allow. */
void session_parts_changed(struct session *s);
/* The part is ready now. Once all parts are, the waiting requests are called. */
void session_parts_settled(struct session *s);
/* A part that never will be ready calls session_fail() (session_stop.h). */

/* ---- for the core: calls all parts */

/* Does the session run, are its parts ready and its executions known? After a restart of the daemon
 * only PID 1 can say which programs run. Until then every process would seem to be gone. */
bool session_is_usable(const struct session *s);

int session_parts_setup(struct core *c, struct err *e) MUST_USE;
void session_parts_release(struct core *c);
void session_parts_second(struct core *c);
bool session_parts_fit(const struct core *c, const char **ret_why);
void session_parts_metrics(struct core *c, struct buf *b);
bool session_parts_delete_one(struct core *c, struct tenant *t);

int session_parts_check(struct session *s, struct err *e) MUST_USE;
void session_parts_started(struct session *s);
bool session_parts_ready(const struct session *s);
void session_parts_restored(struct session *s);
void session_parts_making(struct session *s);
void session_parts_adopted(struct session *s);
void session_parts_resumed(struct session *s);
void session_parts_session_second(struct session *s);
void session_parts_sampled(struct session *s, const struct session_sample *now);
void session_parts_fault(struct session *s, const char *what);
int session_parts_check_execution(struct session *s, struct execution *x, const char *secrets,
				  struct err *e) MUST_USE;
int session_parts_check_memory(struct session *s, bool same, struct err *e) MUST_USE;
int session_parts_add_values(struct session *s, bool same, struct buf *to, struct err *e) MUST_USE;
int session_parts_keep_values(struct session *s, const char *layer, const char *kind,
			      struct err *e) MUST_USE;
/* Let each part prepare an execution. Return the number of begun completions in w (CORE_PARTS_MAX
 * entries). */
unsigned session_parts_prepare(struct session *s, struct execution *x, struct completion *w);
void session_parts_execution_ended(struct session *s, struct execution *x);
void session_parts_add_env(struct session *s, struct execution *x, struct buf *to);
void session_parts_egress_listens(struct session *s, struct live_cell *cell,
				  const struct agent_event *v);
void session_parts_cell_gone(struct session *s, const struct err *why);
void session_parts_ending(struct session *s, const struct err *why);
int session_parts_finish(struct session *s, struct err *e) MUST_USE;
void session_parts_free(struct session *s, const struct err *why);
