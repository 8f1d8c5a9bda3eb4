/* session_parts.h - parts of a session that the core does not know: secrets, network access.
 *
 * A part is a table of functions, given to core_new() in core_options.parts. The core calls every
 * part at the points below, in the order of that list; a function that a part does not need is
 * NULL. A part keeps what it needs for the node and for each session behind one pointer each, which
 * only the part reads (session_parts_of_core(), session_parts_of()).
 *
 * Parts use the functions of session.h and core.h, as the interfaces do, and those in the second
 * half of this file. They do not see struct session or struct core. */
#pragma once

#include "session.h"

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
	/* Is it fit to serve? ret_why says what is missing. */
	bool (*is_fit)(const struct core *c, const char **ret_why);
	/* Sets its metrics, and appends text of its own. */
	void (*on_metrics)(struct core *c, struct buf *b);
	/* Deletes one thing of a tenant that is being removed; false: there is no more. */
	bool (*delete_one)(struct core *c, struct tenant *t);

	/* ---- of one session */

	/* Before a new session is admitted: may it be as its row says? */
	int (*check)(struct session *s, struct err *e);
	/* Its cell is up for the first time. If the part is not ready then, the session is not
	 * usable until session_parts_settled(). */
	void (*on_started)(struct session *s);
	bool (*is_ready)(const struct session *s);
	/* An earlier daemon left it: it is in memory again, with a cell or without one. */
	void (*on_restored)(struct session *s);
	/* Before a cell is made in which programs or files of an earlier one go on, of the session
	 * itself or of the one whose memory it begins with. */
	void (*on_making)(struct session *s);
	/* An earlier daemon left it; its PID 1 has not answered yet. */
	void (*on_adopted)(struct session *s);
	/* It was resumed, or it was adopted and PID 1 has answered. */
	void (*on_resumed)(struct session *s);
	/* After session_parts_changed(), from the loop. */
	void (*on_changed)(struct session *s);
	void (*on_session_second)(struct session *s);
	/* May a new execution have these secrets (lines of secret_spec.h) for itself? The part that
	 * answers calls execution_set_secrets(). */
	int (*check_execution)(struct session *s, struct execution *x, const char *secrets,
			       struct err *e);
	/* May other sessions begin with the memory of its guest? same: they will have what the row
	 * of this one says. */
	int (*check_memory)(struct session *s, bool same, struct err *e);
	/* Values that must not be in files that other sessions will have: each with its length
	 * before it, in four bytes. same: these have what the row of this one says. */
	int (*add_values)(struct session *s, bool same, struct buf *to, struct err *e);
	/* Before a new execution that has secrets of its own is sent to PID 1. True: the part
	 * begins w, which ends when the program may start, or with the reason why it cannot. */
	bool (*prepare)(struct session *s, struct execution *x, struct completion *w);
	/* Its outcome is known; processes that it started may still run. */
	void (*on_execution_ended)(struct session *s, struct execution *x);
	/* Appends "NAME=value" strings, each with its NUL, to the environment of an execution. */
	void (*add_env)(struct session *s, struct execution *x, struct buf *to);
	/* PID 1 passed the sockets of the cell's network; its descriptors are in c->agent.fds. */
	void (*on_egress_listens)(struct session *s, struct live_cell *c,
				  const struct agent_event *v);
	/* It goes on without its cell (session_cold.h); on_started follows when it has another. */
	void (*on_cell_gone)(struct session *s, const struct err *why);
	/* It stops: why is the error for those that wait. */
	void (*on_ending)(struct session *s, const struct err *why);
	/* It leaves memory; it may go on living, if the daemon ends. */
	void (*on_free)(struct session *s, const struct err *why);
};

/* ---- for parts */

/* The part's own pointer for the node, or for the session: NULL at first. */
void **session_parts_of_core(const struct core *c, const struct session_part *p);
void **session_parts_of(const struct session *s, const struct session_part *p);

/* The settings of the session or of its tenant have changed: the core calls on_changed of its
 * parts, after this turn of the loop and for as many sessions as 5 ms of each turn allow. */
void session_parts_changed(struct session *s);
/* The part is ready now: if all parts are, those that wait for the session are called. */
void session_parts_settled(struct session *s);
/* A part that never will be ready calls session_fail() (session_stop.h). */

/* ---- for the core: calls all parts */

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
int session_parts_check_execution(struct session *s, struct execution *x, const char *secrets,
				  struct err *e) MUST_USE;
int session_parts_check_memory(struct session *s, bool same, struct err *e) MUST_USE;
int session_parts_add_values(struct session *s, bool same, struct buf *to, struct err *e) MUST_USE;
/* Returns how many of w were begun; there are CORE_PARTS_MAX. */
unsigned session_parts_prepare(struct session *s, struct execution *x, struct completion *w);
void session_parts_execution_ended(struct session *s, struct execution *x);
void session_parts_add_env(struct session *s, struct execution *x, struct buf *to);
void session_parts_egress_listens(struct session *s, struct live_cell *cell,
				  const struct agent_event *v);
void session_parts_cell_gone(struct session *s, const struct err *why);
void session_parts_ending(struct session *s, const struct err *why);
void session_parts_free(struct session *s, const struct err *why);
