/* api_events.c - theory of operation
 *
 * What happened, in order, from the store: in pages, or followed live. A follower is told that
 * there is more and reads it from the store after the last number it has, a few at a time, when its
 * client has room: so a slow one costs nothing, and nothing is missed. */
#include <stdio.h>

#include "api_handlers.h"
#include "feed.h"
#include "journal.h"
#include "json.h"
#include "reply.h"
#include "shape.h"

#define LIMIT 100 /* unless told */
#define LIMIT_MAX 1000
#define BATCH 32
#define EVENT_MAX (64U << 10)

struct events {
	struct feed feed; /* first, see feed.c */
	struct journal_listener listener;
	bool listening;
	uint64_t after;
	unsigned sent; /* of this batch */
};

static void release(struct request *r, bool answered)
{
	struct events *v = r->state;

	(void)answered;
	feed_release(&v->feed);
	if (v->listening)
		journal_unlisten(&v->listener);
}

static void set_filter(struct request *r, struct store_event_filter *ret)
{
	ret->tenant = tenant_row(r->tenant)->id;
	ret->session = r->session_id[0] == '\0' ? NULL : r->session_id;
}

/* ---- followed */

/* Sends what there is room for. */
static int send_one(const struct store_event *row, void *cookie)
{
	struct events *v = cookie;
	char id[24];
	struct json j;

	if (!feed_ready(&v->feed))
		return 1;
	json_init_heap(&j, EVENT_MAX);
	shape_event(&j, NULL, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)row->seq);
	if (json_ok(&j))
		feed_event(&v->feed, row->type, id, j.text, j.len);
	json_release(&j);
	v->after = row->seq;
	v->sent++;
	return 0;
}

static void pump(struct request *r)
{
	struct events *v = r->state;
	struct store_event_filter filter = { .limit = BATCH };
	struct err e = { 0 };

	set_filter(r, &filter);
	do {
		v->sent = 0;
		filter.after_seq = v->after;
		if (store_event_list(core_store(r->core), &filter, send_one, v, &e) < 0) {
			v->feed.ended = true;
			exchange_abort(r->x);
			return;
		}
	} while (v->sent == BATCH && feed_ready(&v->feed));
}

static void more(struct journal_listener *l)
{
	struct request *r = l->arg;
	struct events *v = r->state;

	if (feed_ready(&v->feed))
		pump(r);
}

static void follow(struct request *r, uint64_t after, bool after_given)
{
	struct events *v = request_state(r, sizeof(*v), release);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->after = after;
	/* Without a place to begin: from now on. */
	if (!after_given && store_event_last(core_store(r->core), &v->after, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	(void)snprintf(v->listener.tenant, STORE_ID_MAX, "%s", tenant_row(r->tenant)->id);
	(void)snprintf(v->listener.session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	v->listener.more = more;
	v->listener.arg = r;
	if (!feed_begin(&v->feed, r, pump))
		return;
	journal_listen(r->core, &v->listener);
	v->listening = true;
	pump(r);
}

/* ---- in pages */

struct listing {
	struct json *j;
	unsigned limit, shown;
	uint64_t last;
	bool more;
};

static int list_one(const struct store_event *row, void *cookie)
{
	struct listing *l = cookie;

	if (l->shown == l->limit) {
		l->more = true;
		return 1;
	}
	shape_event(l->j, NULL, row);
	l->shown++;
	l->last = row->seq;
	return 0;
}

static void list(struct request *r, uint64_t after, unsigned limit)
{
	struct store_event_filter filter = { .after_seq = after, .limit = limit + 1 };
	struct listing l = { .limit = limit };
	struct err e = { 0 };
	struct json j;

	set_filter(r, &filter);
	json_init_heap(&j, REPLY_JSON_MAX);
	l.j = &j;
	json_open(&j, NULL, '{');
	json_open(&j, "events", '[');
	if (store_event_list(core_store(r->core), &filter, list_one, &l, &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
		return;
	}
	json_close(&j, ']');
	shape_next(&j, l.more, l.last);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void api_events_tenant(struct request *r)
{
	uint64_t after = UINT64_MAX, limit = LIMIT;
	bool following = false;
	struct err e = { 0 };

	if (request_bool(r, "follow", &following, &e) < 0 ||
	    request_number(r, "after", 0, INT64_MAX, &after, &e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (following) {
		bool given = feed_last_id(r, &after) || after != UINT64_MAX;

		follow(r, after, given);
		return;
	}
	list(r, after == UINT64_MAX ? 0 : after, (unsigned)limit);
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
