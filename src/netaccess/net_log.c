/* net_log.c - see net_log.h. */
#include "net_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_record_text.h"
#include "core.h"
#include "execution.h"
#include "list.h"
#include "net_package.h"
#include "net_state.h"
#include "session.h"
#include "tenant.h"
#include "log.h"
#include "net_usage.h"
#include "record_bounds.h"
#include "store_net.h"

/* A session may exceed its bound by 1/BOUND_SLACK, so that not every record needs a delete. */
#define BOUND_SLACK 16

/* Deletes the oldest records of the session if there are too many. */
static int bound(struct session *s, struct err *e)
{
	uint64_t max = core_config(session_core(s))->network_records_session_max, gone = 0;
	int n;

	if (net_session_of(s)->records == 0 &&
	    store_net_count(core_store(session_core(s)), session_row(s)->id,
			    &net_session_of(s)->records, e) < 0)
		return -1;
	if (net_session_of(s)->records <= max + max / BOUND_SLACK)
		return 0;
	n = store_net_drop(core_store(session_core(s)), session_row(s)->id,
			   net_session_of(s)->records - max, &gone, e);
	if (n < 0)
		return -1;
	record_bounds_add(session_core(s), session_tenant(s), RECORD_NET, -n);
	/* If fewer were there than counted, because retention has deleted some, it is counted
	 * again. */
	net_session_of(s)->records =
		gone < net_session_of(s)->records - max ? 0 : net_session_of(s)->records - gone;
	return 0;
}

static void notify_later(struct session *s)
{
	struct net_access *n = net_access_of(session_core(s));
	bool any = false;

	for (struct net_log_listener *l = n->listeners; l != NULL; l = l->next)
		if (strcmp(l->session, session_row(s)->id) == 0)
			any = l->due = true;
	if (any)
		loop_defer(core_loop(n->core), &n->notify);
}

/* Finds the execution by the mark of its processes, among those of this session. Otherwise the
 * record says why it is not known. */
static int name_execution(struct session *s, const struct access_record_text *r,
			  struct store_net *row, char **text, struct err *e)
{
	const char *word = r->unknown[0] != '\0' ? r->unknown : "unsupported";
	char *longer;

	if (r->mark != 0) {
		if (execution_id_by_mark(s, r->mark, row->execution, e) < 0)
			return -1;
		word = "no_execution";
	}
	if (row->execution[0] != '\0')
		return 0;
	/* The text is an object with members. */
	if (asprintf(&longer, "%.*s,\"execution_unknown\":\"%s\"}", (int)strlen(*text) - 1, *text,
		     word) < 0)
		return err_set(e, ERR_SYSTEM, "record: out of memory");
	free(*text);
	*text = longer;
	return 0;
}

/* clean may be replaced by a longer one. */
static int write_record(struct session *s, const struct access_record_text *r, char **clean,
			struct err *e)
{
	struct store_net row = { 0 };

	memcpy(row.tenant, session_row(s)->tenant, sizeof(row.tenant));
	memcpy(row.session, session_row(s)->id, sizeof(row.session));
	memcpy(row.kind, r->kind, sizeof(row.kind));
	memcpy(row.name, r->name, sizeof(row.name));
	row.time_ms = r->time_ms;
	row.allowed = r->allowed;
	if (name_execution(s, r, &row, clean, e) < 0)
		return -1;
	row.data = *clean;
	if (store_net_append(core_store(session_core(s)), &row, NULL, e) < 0)
		return -1;
	if (net_session_of(s)->records > 0)
		net_session_of(s)->records += STORE_NET_WEIGHT(strlen(*clean));
	record_bounds_add(session_core(s), session_tenant(s), RECORD_NET, 1);
	notify_later(s);
	/* Datagrams have neither a host nor a known execution. */
	if (!r->allowed && strcmp(r->kind, "datagram") != 0)
		net_refusals_add(&net_session_of(s)->refused, r, row.execution);
	if (r->is_package && net_package_take(s, r, row.execution, e) < 0)
		return -1;
	return bound(s, e);
}

int net_log_take(struct session *s, const char *text, size_t len, bool *ret_allowed, struct err *e)
{
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	if (access_record_text_read(text, len, &r, &clean, e) < 0)
		return -1;
	*ret_allowed = r.allowed;
	if (write_record(s, &r, &clean, e) == 0)
		return 0;
	if (e->code == ERR_INVALID) /* of the store, which has rolled the transaction back */
		e->code = ERR_SYSTEM;
	return -1;
}

/* Raises a total of the session. Every egress counts on from the totals in the session's first
 * configuration. */
static void add(uint64_t now, uint64_t *sum, uint64_t *all)
{
	if (now <= *sum || now > INT64_MAX)
		return;
	*all += now - *sum;
	*sum = now;
}

int net_log_counts(struct session *s, const char *text, size_t len, struct err *e)
{
	struct store_usage *u = session_usage(s);
	struct egress_numbers *all = &net_access_of(session_core(s))->egress.numbers;
	struct record_counts now;

	if (access_record_text_counts(text, len, &now, e) < 0)
		return -1;
	add(now.bytes_in, &u->net_bytes_in, &all->bytes_in);
	add(now.bytes_out, &u->net_bytes_out, &all->bytes_out);
	add(now.requests, &u->net_requests, &all->requests);
	net_usage_take(s, &now);
	return 0;
}

void net_log_listen(struct core *c, struct net_log_listener *l)
{
	struct net_access *n = net_access_of(c);

	LIST_PUSH(&n->listeners, l);
}

void net_log_unlisten(struct net_log_listener *l)
{
	LIST_REMOVE(l);
}

static struct net_log_listener *find_calling(struct net_log_listener *l)
{
	while (l != NULL && !l->calling)
		l = l->next;
	return l;
}

void net_log_on_notify(struct loop_task *t)
{
	struct net_access *n = t->arg;
	struct net_log_listener *l;

	for (l = n->listeners; l != NULL; l = l->next) {
		l->calling = l->due;
		l->due = false;
	}
	/* A listener may end others: after each the search begins again. */
	while ((l = find_calling(n->listeners)) != NULL) {
		l->calling = false;
		l->on_records(l);
	}
}
