#include "journal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inside.h"

#define DATA_MAX 2048

int journal_event(struct core *c, const char *tenant, const char *session, const char *execution,
		  const char *type, struct err *e, const char *fmt, ...)
{
	struct store_event row = { .time_ms = core_now_ms() };
	char data[DATA_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(data, sizeof(data), fmt, args);
	va_end(args);
	if (session[0] != '\0' && data[0] != '\0') {
		const struct session *s = session_by_id(c, session);

		if (s != NULL)
			session_redact(s, data);
	}
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.session, sizeof(row.session), "%s", session);
	(void)snprintf(row.execution, sizeof(row.execution), "%s", execution);
	(void)snprintf(row.type, sizeof(row.type), "%s", type);
	row.data = data;
	if (store_event_append(c->store, &row, NULL, e) < 0)
		return -1;
	if (c->listeners != NULL)
		loop_defer(c->loop, &c->tell_listeners);
	return 0;
}

void journal_listen(struct core *c, struct journal_listener *l)
{
	l->next = c->listeners;
	l->link = &c->listeners;
	if (l->next != NULL)
		l->next->link = &l->next;
	c->listeners = l;
}

void journal_unlisten(struct journal_listener *l)
{
	if (l->link == NULL)
		return;
	*l->link = l->next;
	if (l->next != NULL)
		l->next->link = l->link;
	l->link = NULL;
}

/* Listeners look for themselves whether there is something for them: events come together. */
void journal_tell(struct loop_task *t)
{
	struct core *c = t->arg;

	for (struct journal_listener *l = c->listeners, *next; l != NULL; l = next) {
		next = l->next;
		l->more(l);
	}
}
