/* net_log.h - records of what sessions tried to reach: stored, counted, and announced to listeners.
 * They are not events (event_log.h): they are many, and have bounds of their own. Called by
 * egress_link.c for every record, and by the interfaces. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "lib/json/json.h"

struct net_refusals;

/* Read a record of the session and store it, inside the open transaction. ERR_INVALID: it is
 * malformed. Other errors: the store failed, and has rolled the transaction back. */
int net_log_take(struct session *s, const char *text, size_t len, bool *ret_allowed,
		 struct err *e) MUST_USE;
/* Read the counters that egress keeps for the session. ERR_INVALID as above. */
int net_log_counts(struct session *s, const char *text, size_t len, struct err *e) MUST_USE;

/* Listeners are called after the turn in which records of their session (or tenant) were stored,
 * and read them from the store (store_net_list) after the last they have. */
struct net_log_listener {
	struct net_log_listener *next, **link; /* the core's */
	char session[STORE_ID_MAX];	       /* "": all of the tenant */
	char tenant[STORE_ID_MAX];
	bool due, calling; /* on_records is to be called. In this turn */
	void (*on_records)(struct net_log_listener *l);
	void *arg; /* the caller's */
};
void net_log_listen(struct core *c, struct net_log_listener *l);
void net_log_unlisten(struct net_log_listener *l);

/* The callback of the task that calls the listeners. */
void net_log_on_notify(struct loop_task *t);

/* ---- the last hosts that a session was refused, for the answers of executions: the refusals while
 * one ran are said with its result. The whole list is in the network records. */

struct access_record_text;
struct net_refusal;
struct store_execution;

#define NET_REFUSALS_MAX 16 /* kept for a session */

void net_refusals_release(struct net_refusals *l);

/* The member "denied" of an execution: [{"kind", "name", "reason", "allow"}], each host once.
 * Those of other executions are left out. Nothing is written if the session has ended. */
void net_refusals_write(struct core *c, const struct store_execution *row, struct json *j);
/* As above, in one line for people, with its end of line. "": nothing was refused. */
#define NET_REFUSALS_LINE 1024
void net_refusals_line(struct core *c, const struct store_execution *row,
		       char ret[NET_REFUSALS_LINE]);

/* ---- packages of sessions: records of kind "package" become one row for each name and
 * version (store_package.h), and are counted. Called by net_log.c, inside its transaction. */

struct access_record_text;
