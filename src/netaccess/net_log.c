#include "net_log.h"

#include <stdio.h>
#include <string.h>

#include "access_record_text.h"
#include "core_private.h"
#include "log.h"
#include "net_usage.h"
#include "store_net.h"

/* Deleted in pieces: a session that is at its bound pays for one delete in so many records. */
#define BOUND_SLACK 16
#define PRUNE_EVERY 256

/* The oldest go when there are too many. */
static int bound(struct session *s, struct err *e)
{
	uint64_t max = s->core->o.config->network_records_session_max, gone = 0;

	if (s->net_records == 0 &&
	    store_net_count(s->core->store, s->row.id, &s->net_records, e) < 0)
		return -1;
	if (s->net_records <= max + max / BOUND_SLACK)
		return 0;
	if (store_net_drop(s->core->store, s->row.id, s->net_records - max, &gone, e) < 0)
		return -1;
	/* Others may have gone before: of those that are too old. Then it is counted again. */
	s->net_records = gone < s->net_records - max ? 0 : s->net_records - gone;
	return 0;
}

/* Of all sessions. What is done once a minute (core.c) would not hold a flood. */
static int bound_all(struct core *c, struct err *e)
{
	const struct config *o = c->o.config;

	if (++c->net_stored % PRUNE_EVERY != 0)
		return 0;
	return store_net_prune(c->store, core_now_ms() - o->event_retention_ms,
			       o->network_records_max, 2 * PRUNE_EVERY, e) < 0
		       ? -1
		       : 0;
}

static void tell_later(struct session *s)
{
	struct core *c = s->core;
	bool any = false;

	for (struct net_log_listener *l = c->net_listeners; l != NULL; l = l->next)
		if (strcmp(l->session, s->row.id) == 0)
			any = l->due = true;
	if (any)
		loop_defer(c->loop, &c->tell_net);
}

int net_log_take(struct session *s, const char *text, size_t len, bool *ret_allowed, struct err *e)
{
	struct store_net row = { 0 };
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	if (access_record_text_read(text, len, &r, &clean, e) < 0)
		return -1;
	memcpy(row.tenant, s->row.tenant, sizeof(row.tenant));
	memcpy(row.session, s->row.id, sizeof(row.session));
	memcpy(row.kind, r.kind, sizeof(row.kind));
	memcpy(row.name, r.name, sizeof(row.name));
	row.time_ms = r.time_ms;
	row.allowed = *ret_allowed = r.allowed;
	row.data = clean;
	if (store_net_append(s->core->store, &row, NULL, e) < 0)
		return -1;
	if (s->net_records > 0)
		s->net_records += STORE_NET_WEIGHT(strlen(clean));
	tell_later(s);
	return bound(s, e) < 0 ? -1 : bound_all(s->core, e);
}

/* Totals of the session: every egress goes on with those of its first order. */
static void add(uint64_t now, uint64_t *sum, uint64_t *all)
{
	if (now <= *sum || now > INT64_MAX)
		return;
	*all += now - *sum;
	*sum = now;
}

int net_log_counts(struct session *s, const char *text, size_t len, struct err *e)
{
	struct store_usage *u = &s->row.usage;
	struct egress_numbers *all = &s->core->egress.numbers;
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
	l->next = c->net_listeners;
	l->link = &c->net_listeners;
	if (l->next != NULL)
		l->next->link = &l->next;
	c->net_listeners = l;
}

void net_log_unlisten(struct net_log_listener *l)
{
	if (l->link == NULL)
		return;
	*l->link = l->next;
	if (l->next != NULL)
		l->next->link = l->link;
	l->link = NULL;
}

void net_log_tell(struct loop_task *t)
{
	struct core *c = t->arg;

	for (struct net_log_listener *l = c->net_listeners, *next; l != NULL; l = next) {
		next = l->next;
		if (!l->due)
			continue;
		l->due = false;
		l->more(l);
	}
}
