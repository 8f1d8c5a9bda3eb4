/* event_log.h - events of tenants: appended to the store, and announced to listeners. GET
 * /v1/events shows these records. The log of the process (log.h) is apart from them. */
#pragma once

#include "daemon/audit/audit_leaf.h"
#include "daemon/node/core.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_key.h"
#include "daemon/store/store_tenant.h"

/* Append an event. actor: whose request caused it. NULL: the server itself. The format makes its
 * data: "key\tvalue\n" lines as fact_lines_print() makes them, or "". The caller masks secrets in
 * texts (session_redact()). Masking all of the data would also hit keys and numbers. If a
 * transaction of the store is open, the event is part of it, so that a change and its event are
 * written together. */
int event_log_append(struct core *c, const struct store_actor *actor, const char *tenant,
		     const char *session, const char *execution, const char *type, struct err *e,
		     const char *fmt, ...) PRINTF(8, 9) MUST_USE;

/* Further facts of an event's audit record. */
struct event_more {
	const char *facts; /* lines as those of the format. NULL: none */
	const char *event; /* further lines of the event only, since the record seals them */
	struct audit_sealed sealed[AUDIT_SEALED_MAX];
};
int event_log_append_more(struct core *c, const struct store_actor *actor, const char *tenant,
			  const char *session, const char *execution, const char *type,
			  const struct event_more *more, struct err *e, const char *fmt, ...)
	PRINTF(9, 10) MUST_USE;

/* Listeners are called after the turn in which events of their tenant (and session) were appended.
 * They read them from the store (store_event_list) after their last seq. */
struct event_log_listener {
	struct event_log_listener *next, **link;	  /* the core's */
	char tenant[STORE_ID_MAX], session[STORE_ID_MAX]; /* session "": all */
	bool due, calling; /* the core's: call on_events. In this turn */
	void (*on_events)(struct event_log_listener *l);
	void *arg; /* the caller's */
};
void event_log_listen(struct core *c, struct event_log_listener *l);
void event_log_unlisten(struct event_log_listener *l);

/* The callback of core's notify_listeners. */
void event_log_on_notify(struct loop_task *t);

/* ---- events about tenants and keys
 *
 * key.created, key.revoked, key.expired, tenant.created, tenant.changed, tenant.network and
 * tenant.removed. Called by tenant_admin.c and tenant_key.c inside the transaction of the change.
 *
 * An event belongs to the changed tenant. If a key of another tenant caused it (the operator's),
 * that tenant gets the same event, so that the operator can read its own changes after a tenant was
 * removed. */

/* Has id, name and scopes of the key, never its text. */
int access_events_key(struct core *c, const struct store_actor *who, const char *type,
		      const struct store_key *k, struct err *e) MUST_USE;

int access_events_tenant(struct core *c, const struct store_actor *who, const char *type,
			 const struct store_tenant *t, struct err *e) MUST_USE;
/* Of the type tenant.network: with the digest of its new policy. */
int access_events_policy(struct core *c, const struct store_actor *who,
			 const struct store_tenant *t, const char *document,
			 struct err *e) MUST_USE;

/* tenant.changed, with the names of the members that differ. Nothing is written if none does. */
int access_events_changed(struct core *c, const struct store_actor *who,
			  const struct store_tenant *before, const struct store_tenant *after,
			  struct err *e) MUST_USE;
