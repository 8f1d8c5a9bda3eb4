/* event_log.h - events of tenants: appended to the store, and announced to listeners. What is
 * written here is what GET /v1/events shows; the log of the process (log.h) is apart from it. */
#pragma once

#include "core.h"
#include "store_actor.h"

/* Appends an event. actor: whose request caused it; NULL: the server itself. The format makes its
 * data: "key\tvalue\n" lines, or "". The caller masks secrets in texts (session_redact()); masking
 * all of the data would also hit keys and numbers. If a transaction of the store is open, the event
 * is part of it, so that a change and its event are written together. */
int event_log_append(struct core *c, const struct store_actor *actor, const char *tenant,
		     const char *session, const char *execution, const char *type, struct err *e,
		     const char *fmt, ...) PRINTF(8, 9) MUST_USE;

/* Listeners are called after the turn in which events of their tenant (and session) were appended;
 * they read them from the store (store_event_list) after the last seq they have. */
struct event_log_listener {
	struct event_log_listener *next, **link;	  /* the core's */
	char tenant[STORE_ID_MAX], session[STORE_ID_MAX]; /* session "": all */
	bool due, calling; /* the core's: on_events is to be called; in this turn */
	void (*on_events)(struct event_log_listener *l);
	void *arg; /* the caller's */
};
void event_log_listen(struct core *c, struct event_log_listener *l);
void event_log_unlisten(struct event_log_listener *l);

/* The callback of core's notify_listeners. */
void event_log_on_notify(struct loop_task *t);
