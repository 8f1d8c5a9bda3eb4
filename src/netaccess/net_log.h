/* net_log.h - records of what sessions tried to reach: stored, counted, and announced to listeners.
 * They are not events (event_log.h): they are many, and have bounds of their own. Called by
 * egress_link.c for every record, and by the interfaces. */
#pragma once

#include "core.h"

/* Reads a record of the session and stores it, inside the transaction that is open. ERR_INVALID: it
 * is malformed; other errors: the store failed, and has rolled the transaction back. */
int net_log_take(struct session *s, const char *text, size_t len, bool *ret_allowed,
		 struct err *e) MUST_USE;
/* Reads the counters that egress keeps for the session. ERR_INVALID as above. */
int net_log_counts(struct session *s, const char *text, size_t len, struct err *e) MUST_USE;

/* Listeners are called after the turn in which records of their session were stored, and read them
 * from the store (store_net_list) after the last they have. */
struct net_log_listener {
	struct net_log_listener *next, **link; /* the core's */
	char session[STORE_ID_MAX];
	bool due, calling; /* on_records is to be called; in this turn */
	void (*on_records)(struct net_log_listener *l);
	void *arg; /* the caller's */
};
void net_log_listen(struct core *c, struct net_log_listener *l);
void net_log_unlisten(struct net_log_listener *l);

/* The callback of the task that calls the listeners. */
void net_log_on_notify(struct loop_task *t);
