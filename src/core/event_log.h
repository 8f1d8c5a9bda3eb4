/* event_log.h - every fact that matters is one event: in the log, in the store and sent to
 * listeners, from the same call. */
#pragma once

#include "core.h"
#include "store_actor.h"

/* Appends an event. actor: whose request caused it; NULL: the server itself. data: "key\tvalue\n"
 * lines, or "". The caller covers secrets in a value that is a text (session_redact()); here keys
 * and numbers would be covered with it. Inside a transaction of the store if one is open, so that a
 * transition and its event are written together. */
int event_log_append(struct core *c, const struct store_actor *actor, const char *tenant,
		     const char *session, const char *execution, const char *type, struct err *e,
		     const char *fmt, ...) PRINTF(8, 9) MUST_USE;

/* Listeners are called after the turn in which events of their tenant (and session) were appended;
 * they read them from the store (store_event_list) after the last seq they have. */
struct event_log_listener {
	struct event_log_listener *next, **link;	  /* the core's */
	char tenant[STORE_ID_MAX], session[STORE_ID_MAX]; /* session "": all */
	bool due;					  /* the core's */
	void (*more)(struct event_log_listener *l);
	void *arg; /* the caller's */
};
void event_log_listen(struct core *c, struct event_log_listener *l);
void event_log_unlisten(struct event_log_listener *l);

/* The core's: calls the listeners. */
void event_log_tell(struct loop_task *t);
