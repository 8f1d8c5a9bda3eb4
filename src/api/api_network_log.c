/* api_network_log.c - theory of operation
 *
 * What a session tried to reach, in order, from the store: in pages, or followed live, as
 * api_events.c does it with the journal. A record is shown as it was stored, with its number and
 * its time in front. A follower remembers the last record it looked at, not the last it sent: what
 * its filter hides is looked at once. */
#include <stdio.h>

#include "api_handlers.h"
#include "sse_stream.h"
#include "json.h"
#include "net_log.h"
#include "reply.h"
#include "json_views.h"
#include "store_net.h"
#include "walk.h"

#define LIMIT 100 /* unless told */
#define LIMIT_MAX 1000
#define BATCH 64
#define RECORD_MAX (2U << 20)

struct wanted {
	uint64_t after, limit;
	bool after_given, follow;
	char kind[16], name[256];
	enum store_net_verdict verdict;
};

struct records {
	struct sse_stream feed; /* first, see sse_stream.c */
	struct net_log_listener listener;
	bool listening;
	struct job job; /* looks at a batch */
	struct wanted wanted;
};

static void set_filter(const struct request *r, const struct wanted *w,
		       struct store_net_filter *ret)
{
	ret->session = r->session_id;
	ret->after_seq = w->after;
	ret->kind = w->kind[0] == '\0' ? NULL : w->kind;
	ret->name = w->name[0] == '\0' ? NULL : w->name;
	ret->verdict = w->verdict;
}

/* ---- followed */

static void release(struct request *r, bool answered)
{
	struct records *v = r->state;

	(void)answered;
	sse_stream_release(&v->feed);
	core_job_cancel(r->core, &v->job);
	if (v->listening)
		net_log_unlisten(&v->listener);
}

static int send_one(const struct store_net *row, void *cookie)
{
	struct records *v = cookie;
	char id[24];
	struct json j;

	if (!sse_stream_ready(&v->feed))
		return 1;
	json_init_heap(&j, RECORD_MAX);
	json_view_net(&j, NULL, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)row->seq);
	if (json_ok(&j))
		sse_stream_event(&v->feed, row->kind, id, j.text, j.len);
	json_release(&j);
	return 0;
}

/* A batch. When it was full there may be more: behind the other jobs of the tenant. */
static bool on_batch(struct job *job)
{
	struct request *r = job->arg;
	struct records *v = r->state;
	struct store_net_filter filter = { .limit = BATCH };
	struct store_looked looked;
	struct err e = { 0 };

	set_filter(r, &v->wanted, &filter);
	if (store_net_list(core_store(r->core), &filter, send_one, v, &looked, &e) < 0) {
		v->feed.ended = true;
		exchange_abort(r->x);
		return false;
	}
	v->wanted.after = looked.seq;
	if (!looked.end && sse_stream_ready(&v->feed))
		core_job_add(r->core, r->tenant, job);
	return false;
}

static void pump(struct request *r)
{
	struct records *v = r->state;

	if (sse_stream_ready(&v->feed))
		core_job_add(r->core, r->tenant, &v->job);
}

static void more(struct net_log_listener *l)
{
	pump(l->arg);
}

static void follow(struct request *r, const struct wanted *w)
{
	struct records *v = request_state(r, sizeof(*v), release);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->wanted = *w;
	v->job = (struct job){ .piece = on_batch, .arg = r };
	/* Without a place to begin: from now on. */
	if (!w->after_given && store_net_last(core_store(r->core), &v->wanted.after, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	(void)snprintf(v->listener.session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	v->listener.more = more;
	v->listener.arg = r;
	if (!sse_stream_begin(&v->feed, r, pump))
		return;
	net_log_listen(r->core, &v->listener);
	v->listening = true;
	pump(r);
}

/* ---- in pages */

struct listing {
	struct walk walk; /* first */
	struct wanted wanted;
	uint64_t shown;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
};

static int list_one(const struct store_net *row, void *cookie)
{
	struct listing *l = cookie;

	/* A record may hold a whole prompt: a page ends before it is too large to be sent. */
	l->more = l->shown == l->wanted.limit || walk_page_is_full(&l->walk);
	if (l->more || walk_piece_is_full(&l->walk))
		return 1;
	json_view_net(&l->walk.j, NULL, row);
	l->shown++;
	return 0;
}

static int on_piece(struct walk *w, struct err *e)
{
	struct listing *l = (struct listing *)w;
	struct store_net_filter filter = { .limit = WALK_PIECE };
	struct store_looked looked;

	set_filter(w->r, &l->wanted, &filter);
	if (store_net_list(core_store(w->r->core), &filter, list_one, l, &looked, e) < 0)
		return -1;
	l->wanted.after = looked.seq;
	l->end = looked.end;
	return walk_count(w, &looked) && !l->more;
}

static void on_finish(struct walk *w)
{
	struct listing *l = (struct listing *)w;

	json_close(&w->j, ']');
	json_view_next(&w->j, !l->end, l->wanted.after);
	json_close(&w->j, '}');
}

static void list(struct request *r, const struct wanted *wanted)
{
	struct listing *l = walk_new(r, sizeof(*l), on_piece, on_finish);

	if (l == NULL)
		return;
	l->wanted = *wanted;
	json_open(&l->walk.j, NULL, '{');
	json_open(&l->walk.j, "records", '[');
	walk_start(&l->walk);
}

static int read_wanted(struct request *r, struct wanted *w, struct err *e)
{
	static const char *const kinds[] = { "", "dns", "connect", "request" };
	unsigned kind = 0;
	bool allowed = false;
	char given[8];

	*w = (struct wanted){ .limit = LIMIT, .after = UINT64_MAX, .verdict = STORE_NET_ANY };
	if (request_bool(r, "follow", &w->follow, e) < 0 ||
	    request_number(r, "after", 0, INT64_MAX, &w->after, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, &w->limit, e) < 0 ||
	    request_choice(r, "kind", kinds, COUNT(kinds), &kind, e) < 0 ||
	    request_text(r, "name", w->name, sizeof(w->name), e) < 0 ||
	    request_bool(r, "allowed", &allowed, e) < 0 ||
	    request_text(r, "allowed", given, sizeof(given), e) < 0)
		return -1;
	(void)snprintf(w->kind, sizeof(w->kind), "%s", kinds[kind]);
	if (given[0] != '\0')
		w->verdict = allowed ? STORE_NET_ALLOWED : STORE_NET_REFUSED;
	w->after_given = (w->follow && sse_stream_last_id(r, &w->after)) || w->after != UINT64_MAX;
	if (!w->after_given)
		w->after = 0;
	return 0;
}

void api_network_log(struct request *r)
{
	struct session *live;
	struct wanted w;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || read_wanted(r, &w, &e) < 0)
		reply_error(r, &e);
	else if (w.follow)
		follow(r, &w);
	else
		list(r, &w);
}
