/* api_events.c - lists and follows events of a tenant or of one session; see table_follow.h. */
#include <stdio.h>

#include "api_handlers.h"
#include "event_log.h"
#include "table_follow.h"
#include "json.h"
#include "json_view.h"
#include "reply.h"

static int on_row(const struct store_event *row, void *cookie)
{
	return table_follow_add(cookie, row->seq, row->type, row);
}

static int read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
		     struct table_follow_sink *to, struct store_looked *ret, struct err *e)
{
	const struct store_event_filter filter = {
		.tenant = tenant_row(r->tenant)->id,
		.session = r->session_id[0] == '\0' ? NULL : r->session_id,
		.after_seq = after,
		.limit = limit,
	};

	(void)own;
	return store_event_list(core_store(r->core), &filter, on_row, to, ret, e);
}

static void on_more(struct event_log_listener *l)
{
	table_follow_wake(l->arg);
}

static void listen_for(struct request *r, void *own)
{
	struct event_log_listener *l = own;

	(void)snprintf(l->tenant, STORE_ID_MAX, "%s", tenant_row(r->tenant)->id);
	(void)snprintf(l->session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	l->on_events = on_more;
	l->arg = r;
	event_log_listen(r->core, l);
}

static void unlisten(void *own)
{
	event_log_unlisten(own);
}

static void show(struct json *j, const void *row)
{
	json_view_event(j, NULL, row);
}

static const struct table_follow_kind events = {
	.list = "events",
	.batch = 32,
	.record_max = 64U << 10,
	.own_size = sizeof(struct event_log_listener),
	.read_rows = read_rows,
	.read_last = store_event_last,
	.listen = listen_for,
	.unlisten = unlisten,
	.show = show,
};

void api_events_tenant(struct request *r)
{
	struct table_follow_query q;
	struct err e = { 0 };

	if (table_follow_read(r, &q, &e) < 0)
		reply_error(r, &e);
	else
		table_follow_start(r, &events, &q, NULL);
}

void api_events_session(struct request *r)
{
	struct session *live;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0)
		reply_error(r, &e);
	else
		api_events_tenant(r);
}
