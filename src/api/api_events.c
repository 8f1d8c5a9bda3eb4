/* api_events.c - theory of operation
 *
 * What happened, in order, from the store: in pages, or followed live. A follower is told that
 * there is more (of its tenant and session only) and reads it from the store after the last number
 * it has, a few at a time, in its tenant's share of the loop (jobs.h), when its client has room:
 * so a slow one costs nothing, many cost their own tenant, and nothing is missed. */
#include <stdio.h>

#include "api_handlers.h"
#include "sse_stream.h"
#include "event_log.h"
#include "json.h"
#include "reply.h"
#include "json_views.h"
#include "walk.h"

#define LIMIT 100 /* unless told */
#define LIMIT_MAX 1000
#define BATCH 32
#define EVENT_MAX (64U << 10)

struct events {
	struct sse_stream feed; /* first, see sse_stream.c */
	struct event_log_listener listener;
	bool listening;
	struct job job; /* reads a batch */
	uint64_t after;
};

static void release(struct request *r, bool answered)
{
	struct events *v = r->state;

	(void)answered;
	sse_stream_release(&v->feed);
	core_job_cancel(r->core, &v->job);
	if (v->listening)
		event_log_unlisten(&v->listener);
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

	if (!sse_stream_ready(&v->feed))
		return 1;
	json_init_heap(&j, EVENT_MAX);
	json_view_event(&j, NULL, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)row->seq);
	if (json_ok(&j))
		sse_stream_event(&v->feed, row->type, id, j.text, j.len);
	json_release(&j);
	return 0;
}

/* A batch. When it was full there may be more: behind the other jobs of the tenant. */
static bool on_batch(struct job *job)
{
	struct request *r = job->arg;
	struct events *v = r->state;
	struct store_event_filter filter = { .after_seq = v->after, .limit = BATCH };
	struct store_looked looked;
	struct err e = { 0 };

	set_filter(r, &filter);
	if (store_event_list(core_store(r->core), &filter, send_one, v, &looked, &e) < 0) {
		v->feed.ended = true;
		exchange_abort(r->x);
		return false;
	}
	v->after = looked.seq;
	if (!looked.end && sse_stream_ready(&v->feed))
		core_job_add(r->core, r->tenant, job);
	return false;
}

static void pump(struct request *r)
{
	struct events *v = r->state;

	if (sse_stream_ready(&v->feed))
		core_job_add(r->core, r->tenant, &v->job);
}

static void more(struct event_log_listener *l)
{
	pump(l->arg);
}

static void follow(struct request *r, uint64_t after, bool after_given)
{
	struct events *v = request_state(r, sizeof(*v), release);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->after = after;
	v->job = (struct job){ .piece = on_batch, .arg = r };
	/* Without a place to begin: from now on. */
	if (!after_given && store_event_last(core_store(r->core), &v->after, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	(void)snprintf(v->listener.tenant, STORE_ID_MAX, "%s", tenant_row(r->tenant)->id);
	(void)snprintf(v->listener.session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	v->listener.more = more;
	v->listener.arg = r;
	if (!sse_stream_begin(&v->feed, r, pump))
		return;
	event_log_listen(r->core, &v->listener);
	v->listening = true;
	pump(r);
}

/* ---- in pages */

struct listing {
	struct walk walk; /* first */
	unsigned limit, shown;
	uint64_t after;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
};

static int list_one(const struct store_event *row, void *cookie)
{
	struct listing *l = cookie;

	l->more = l->shown == l->limit || walk_page_is_full(&l->walk);
	if (l->more || walk_piece_is_full(&l->walk))
		return 1;
	json_view_event(&l->walk.j, NULL, row);
	l->shown++;
	return 0;
}

static int on_piece(struct walk *w, struct err *e)
{
	struct listing *l = (struct listing *)w;
	struct store_event_filter filter = { .after_seq = l->after, .limit = WALK_PIECE };
	struct store_looked looked;

	set_filter(w->r, &filter);
	if (store_event_list(core_store(w->r->core), &filter, list_one, l, &looked, e) < 0)
		return -1;
	l->after = looked.seq;
	l->end = looked.end;
	return walk_count(w, &looked) && !l->more;
}

static void on_finish(struct walk *w)
{
	struct listing *l = (struct listing *)w;

	json_close(&w->j, ']');
	json_view_next(&w->j, !l->end, l->after);
	json_close(&w->j, '}');
}

static void list(struct request *r, uint64_t after, unsigned limit)
{
	struct listing *l = walk_new(r, sizeof(*l), on_piece, on_finish);

	if (l == NULL)
		return;
	l->after = after;
	l->limit = limit;
	json_open(&l->walk.j, NULL, '{');
	json_open(&l->walk.j, "events", '[');
	walk_start(&l->walk);
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
		bool given = sse_stream_last_id(r, &after) || after != UINT64_MAX;

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
