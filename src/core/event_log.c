/* event_log.c - see event_log.h. */
#include "event_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "list.h"
#include "record_bounds.h"
#include "tenant.h"

#define DATA_MAX 2048

/* Marks the listeners of the event's tenant, and of its session if they follow one. */
static void notify_later(struct core *c, const struct store_event *row)
{
	bool any = false;

	for (struct event_log_listener *l = c->listeners; l != NULL; l = l->next)
		if (!l->due && strcmp(l->tenant, row->tenant) == 0 &&
		    (l->session[0] == '\0' || strcmp(l->session, row->session) == 0))
			any = l->due = true;
	if (any)
		loop_defer(c->loop, &c->notify_listeners);
}

int event_log_append(struct core *c, const struct store_actor *actor, const char *tenant,
		     const char *session, const char *execution, const char *type, struct err *e,
		     const char *fmt, ...)
{
	struct store_event row = { .time_ms = core_now_ms() };
	char data[DATA_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(data, sizeof(data), fmt, args);
	va_end(args);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.session, sizeof(row.session), "%s", session);
	(void)snprintf(row.execution, sizeof(row.execution), "%s", execution);
	(void)snprintf(row.type, sizeof(row.type), "%s", type);
	row.data = data;
	if (actor != NULL)
		row.actor = *actor;
	if (store_event_append(c->store, &row, NULL, e) < 0)
		return -1;
	record_bounds_add(c, tenant_find(c, tenant), RECORD_EVENT, 1);
	notify_later(c, &row);
	return 0;
}

void event_log_listen(struct core *c, struct event_log_listener *l)
{
	LIST_PUSH(&c->listeners, l);
}

void event_log_unlisten(struct event_log_listener *l)
{
	LIST_REMOVE(l);
}

static struct event_log_listener *find_calling(struct event_log_listener *l)
{
	while (l != NULL && !l->calling)
		l = l->next;
	return l;
}

void event_log_on_notify(struct loop_task *t)
{
	struct core *c = t->arg;
	struct event_log_listener *l;

	for (l = c->listeners; l != NULL; l = l->next) {
		l->calling = l->due;
		l->due = false;
	}
	/* A listener may end others: after each the search begins again. */
	while ((l = find_calling(c->listeners)) != NULL) {
		l->calling = false;
		l->on_events(l);
	}
}
