/* net_log.h - what sessions tried to reach: stored, counted, and sent to followers. These
 * records are not events: they are many, and have bounds of their own. */
#pragma once

#include "core.h"

/* Reads and stores a record of the session's, inside the transaction that is open. ERR_INVALID: it
 * is none; others: the store cannot take it, and has taken the transaction back. */
int net_log_take(struct session *s, const char *text, size_t len, bool *ret_allowed,
		 struct err *e) MUST_USE;
/* What it has used, as egress counts it. ERR_INVALID as above. */
int net_log_counts(struct session *s, const char *text, size_t len, struct err *e) MUST_USE;

/* Listeners are called after the turn in which records of their session were stored, and read them
 * from the store (store_net_list) after the last they have. */
struct net_log_listener {
	struct net_log_listener *next, **link; /* the core's */
	char session[STORE_ID_MAX];
	bool due;
	void (*more)(struct net_log_listener *l);
	void *arg; /* the caller's */
};
void net_log_listen(struct core *c, struct net_log_listener *l);
void net_log_unlisten(struct net_log_listener *l);

/* The core's: calls the listeners. */
void net_log_tell(struct loop_task *t);
